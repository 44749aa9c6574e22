//! One lease that this client holds, as guard and watchdog share it.

use std::{
    fmt,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold_core::{
    FencingToken, Instant, Mode, Name, Owner, Renewal, Renewed, Ttl,
    lease::{Lease, Loss, Outcome, Renew, State},
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;

/// A lease with what identifies it and with those who want to know when it is lost.
pub(crate) struct Held {
    pub(crate) name: Name,
    pub(crate) owner: Owner,
    pub(crate) mode: Mode,
    pub(crate) token: FencingToken,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) renew: Renew,
    /// What is published about this holder, to be kept alive with the lease.
    note: Mutex<Option<String>>,
    /// Orders leases that are due at the same instant.
    pub(super) serial: u64,
    /// Where the watchdog's schedule has it; only touched under the schedule's lock.
    pub(super) scheduled: AtomicU64,
    lease: Mutex<Lease>,
    ended: Notify,
    signal: OnceLock<CancellationToken>,
}

/// What identifies a lease.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) name: Name,
    pub(crate) owner: Owner,
    pub(crate) mode: Mode,
    pub(crate) token: FencingToken,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) renew: Renew,
}

impl Held {
    pub(super) fn new(identity: Identity, lease: Lease, serial: u64) -> Self {
        let Identity {
            name,
            owner,
            mode,
            token,
            min_hold,
            renew,
        } = identity;
        tracing::info!(target: "leasehold", %name, fencing_token = token.get(), "acquired");
        Self {
            name,
            owner,
            mode,
            token,
            min_hold,
            renew,
            note: Mutex::new(None),
            serial,
            scheduled: AtomicU64::new(0),
            lease: Mutex::new(lease),
            ended: Notify::new(),
            signal: OnceLock::new(),
        }
    }

    pub(crate) fn ttl(&self) -> Ttl {
        self.lease().ttl()
    }

    /// How long the lease can live in the store when nobody releases it.
    pub(super) fn longest(&self) -> Duration {
        self.lease().longest().get()
    }

    /// Notes that the store is asked for `ttl`, which it may grant though its answer is lost.
    pub(super) fn asks(&self, ttl: Ttl) {
        self.lease().asks(ttl);
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.lease().deadline()
    }

    /// Where a cap on the total hold ends the lease.
    pub(super) fn cap(&self) -> Instant {
        self.lease().cap()
    }

    /// Where the lease stands at `now`; notices a deadline that has passed.
    pub(crate) fn observe(&self, now: Instant) -> State {
        self.change(|lease| lease.observe(now))
    }

    pub(crate) fn lose(&self, loss: Loss) {
        self.change(|lease| lease.lose(loss));
    }

    /// Ends the lease for its holder, who gives it up. Answers where it stood.
    pub(crate) fn release(&self, now: Instant) -> State {
        let before = self.change(|lease| lease.release(now));
        if before.is_held() {
            tracing::debug!(target: "leasehold", name = %self.name, "given up");
            self.tell();
        }
        before
    }

    pub(crate) fn extended(&self, now: Instant, sent: Instant, answer: Renewed) -> State {
        self.change(|lease| lease.extended(now, sent, answer))
    }

    pub(crate) fn renewal(&self, ttl: Ttl) -> Renewal {
        Renewal::new(
            self.name.clone(),
            self.owner.clone(),
            self.mode,
            self.token,
            ttl,
        )
    }

    /// Waits until the lease is over and says why; a lease given up has no loss.
    ///
    /// Sleeps by the deadline itself besides listening, so that a watchdog whose runtime is gone
    /// or blocked leaves nobody waiting.
    pub(crate) async fn over(&self, clock: &Clock) -> Option<Loss> {
        loop {
            let told = self.ended.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            match self.observe(clock.now()) {
                State::Lost(loss) => return Some(loss),
                State::Released => return None,
                _ => {}
            }
            let deadline = self.deadline();
            tokio::select! { biased; () = told => {} () = clock.sleep_until(deadline) => {} }
        }
    }

    pub(crate) fn progressed(&self, now: Instant) {
        self.lease().progressed(now);
    }

    /// A signal that is given when the lease is lost, for code that takes one.
    pub(crate) fn signal(&self, now: Instant) -> CancellationToken {
        let signal = self.signal.get_or_init(CancellationToken::new).clone();
        // Given up while its guard is still there: by a shutdown.
        if !self.observe(now).is_held() {
            signal.cancel();
        }
        signal
    }

    /// Gives the signal although the lease was not lost: nobody would give it later.
    pub(super) fn give_signal(&self) {
        if let Some(signal) = self.signal.get() {
            signal.cancel();
        }
    }

    /// The same lease on the same terms, for a holder that goes on in another mode.
    pub(super) fn identity(&self, mode: Mode) -> Identity {
        Identity {
            name: self.name.clone(),
            owner: self.owner.clone(),
            mode,
            token: self.token,
            min_hold: self.min_hold,
            renew: self.renew,
        }
    }

    /// Lets those who listened to `before` hear of the end of this lease, which goes on with it.
    pub(super) fn inherit(&self, before: &Self) {
        if let Some(signal) = before.signal.get() {
            let _ = self.signal.set(signal.clone());
        }
    }

    pub(crate) fn note(&self) -> Option<String> {
        self.note
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set_note(&self, note: Option<String>) {
        *self.note.lock().unwrap_or_else(PoisonError::into_inner) = note;
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.lease().wake_at()
    }

    pub(super) fn verify(&self, now: Instant) {
        self.lease().verify(now);
    }

    /// The renewal that is due at `now`, and how long it may take.
    pub(super) fn begin_renewal(&self, now: Instant) -> Option<(Renewal, Duration)> {
        let (ttl, limit) = {
            let mut lease = self.lease();
            (lease.begin_renewal(now)?, lease.renewal_limit(now))
        };
        Some((self.renewal(ttl), limit))
    }

    pub(super) fn renewed(
        &self,
        now: Instant,
        sent: Instant,
        outcome: Outcome,
        dice: u64,
    ) -> State {
        self.change(|lease| lease.renewed(now, sent, outcome, dice))
    }

    /// Applies `change` and tells everyone if it brought the end.
    fn change<T>(&self, change: impl FnOnce(&mut Lease) -> T) -> T {
        let (before, result, after) = {
            let mut lease = self.lease();
            // The origin is before every deadline: this only reads the state.
            let before = lease.observe(Instant::ORIGIN);
            let result = change(&mut lease);
            (before, result, lease.observe(Instant::ORIGIN))
        };
        match (before, after) {
            (State::Held | State::Suspect { .. }, State::Lost(loss)) => {
                tracing::error!(target: "leasehold", name = %self.name, reason = %loss, "lost");
                self.tell();
            }
            (State::Suspect { .. }, State::Held) => {
                tracing::warn!(target: "leasehold", name = %self.name, "renewal recovered");
            }
            _ => {}
        }
        result
    }

    fn tell(&self) {
        self.ended.notify_waiters();
        let lost = matches!(self.lease().observe(Instant::ORIGIN), State::Lost(_));
        if lost {
            self.give_signal();
        }
    }

    fn lease(&self) -> MutexGuard<'_, Lease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn scheduled_at(&self) -> Option<Instant> {
        match self.scheduled.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Instant::from_nanos(nanos)),
        }
    }

    pub(super) fn set_scheduled_at(&self, at: Option<Instant>) {
        self.scheduled
            .store(at.map_or(0, Instant::as_nanos), Ordering::Relaxed);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("name", &self.name)
            .field("fencing_token", &self.token)
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}
