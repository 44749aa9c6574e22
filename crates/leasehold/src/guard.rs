use std::{fmt, sync::Arc, time::Duration};

use leasehold_core::{FencingToken, Instant, Mode, Name, Owner, Ttl, lease::Loss};
use tokio_util::sync::CancellationToken;

use crate::{
    driver::{Driver, extend, held::Held, release},
    error::Result,
    lease::Lease,
    shared_guard::SharedGuard,
};

/// A lock that is held.
///
/// It is renewed in the background until it is released or lost. Loss is final: whatever happens
/// afterwards, this guard never becomes valid again. Ask with [`check`](Self::check) before each
/// step that needs the lock, listen with [`lost`](Self::lost) meanwhile, and pass the
/// [`fencing_token`](Self::fencing_token) to the resource for the case that this process is stopped
/// between the two.
///
/// Dropping it releases the lock in the background, which cannot report anything; on the file and
/// Redis stores that takes effect within milliseconds while the client's runtime lives, and after
/// one TTL when it does not. It never panics and never blocks. [`release`](Self::release) is the
/// documented way.
#[must_use = "if unused, the lock is released at once"]
pub struct Guard {
    driver: Arc<Driver>,
    held: Arc<Held>,
}

impl Guard {
    pub(crate) const fn new(driver: Arc<Driver>, held: Arc<Held>) -> Self {
        Self { driver, held }
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.held.name
    }

    /// The unique id of this acquisition.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.held.owner
    }

    /// How the lock is held.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.held.mode
    }

    /// The TTL in effect, which a store may have rounded up.
    #[must_use]
    pub fn ttl(&self) -> Ttl {
        self.held.ttl()
    }

    /// The number for the protected resource to check: greater than that of every holder before.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.held.token
    }

    /// The instant at which validity ends unless a renewal moves it, on the clock of
    /// [`Client::clock`](crate::Client::clock).
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.held.deadline()
    }

    /// How much validity is left; zero once the lock is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let shared = &self.driver.shared;
        let now = shared.clock.now();
        if !shared.is_forked() && self.held.observe(now).is_held() {
            self.held.deadline() - now
        } else {
            Duration::ZERO
        }
    }

    /// Whether the lock is held, by the holder's own clock. Asks no one and takes no time.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Makes sure the lock is held, by the holder's own clock. Asks no one and takes no time.
    ///
    /// # Errors
    ///
    /// `Lost`, with the reason in [`Error::loss`](crate::Error::loss).
    pub fn check(&self) -> Result<()> {
        extend::check(&self.driver, &self.held)
    }

    /// Waits until the lock is lost, and says why. It fires at the deadline at the latest, without
    /// any answer from the store. After [`Client::shutdown`](crate::Client::shutdown), and in a
    /// forked child, it answers [`Loss::Expired`].
    ///
    /// # Cancel safety
    ///
    /// Safe; it may be called any number of times.
    pub async fn lost(&self) -> Loss {
        let shared = &self.driver.shared;
        if shared.is_forked() {
            return Loss::Expired;
        }
        self.held.over(&shared.clock).await.unwrap_or(Loss::Expired)
    }

    /// A signal that is given when the lock is lost, for code that takes one. Also given when the
    /// client is shut down or its runtime ends. It is the client's runtime that gives it: while
    /// that is blocked, only [`lost`](Self::lost) and [`check`](Self::check) notice the deadline.
    #[must_use]
    pub fn lost_signal(&self) -> CancellationToken {
        let shared = &self.driver.shared;
        let signal = self.held.signal(shared.clock.now());
        if shared.has_ended() {
            signal.cancel();
        }
        signal
    }

    /// Waits until less than `span` of validity is left, because renewals fail or none are made; at
    /// once when the lock is lost.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn remaining_below(&self, span: Duration) {
        // After a suspend a timer is late by as long as the machine slept, at most this much.
        const LONGEST_NAP: Duration = Duration::from_secs(1);
        let clock = &self.driver.shared.clock;
        loop {
            let left = self.remaining();
            if left < span || left.is_zero() {
                return;
            }
            let at = self.held.deadline().before(span);
            let at = at
                .after(Duration::from_nanos(1))
                .min(clock.now().after(LONGEST_NAP));
            // The deadline may move before then: look again rather than trust the first answer.
            let told = self.held.over(clock);
            tokio::select! { biased;
                _ = told => return,
                () = clock.sleep_until(at) => {}
            }
        }
    }

    /// Reports progress, which [`Renew::WhileProgress`](crate::Renew::WhileProgress) renews for;
    /// without effect on other leases.
    pub fn progress(&self) {
        self.held.progressed(self.driver.shared.clock.now());
        self.driver.shared.replan(&self.held);
    }

    /// The same lock for several tasks: released when the last clone is dropped, or by
    /// [`SharedGuard::release`]. This is what this crate has in place of re-entrancy.
    #[must_use = "if unused, the lock is released at once"]
    pub fn share(self) -> SharedGuard {
        SharedGuard::new(self)
    }

    /// Lengthens the lease to `ttl` from now, once; a longer one is left as it is. Answers the new
    /// deadline.
    ///
    /// # Errors
    ///
    /// `Invalid` for a TTL out of range, and then nothing changed; `Lost` when the lock is lost,
    /// also by an answer that came after the deadline; `Unavailable`, `Ambiguous`: the old deadline
    /// runs on.
    ///
    /// # Cancel safety
    ///
    /// Safe: the store may have lengthened the lease, the deadline here is then the earlier one.
    pub async fn extend(&self, ttl: Duration) -> Result<Instant> {
        self.begin_extension(ttl)?.await
    }

    /// Checks what was asked for; the future it answers borrows nothing.
    pub(crate) fn begin_extension(
        &self,
        ttl: Duration,
    ) -> Result<impl Future<Output = Result<Instant>> + Send + use<>> {
        let ttl = Ttl::new(ttl)?;
        self.check()?;
        let (driver, held) = (Arc::clone(&self.driver), Arc::clone(&self.held));
        Ok(async move { extend::extend(&driver, &held, ttl).await })
    }

    /// Publishes `note` about this holder, now and with every renewal.
    pub(crate) async fn publish(&self, note: String) -> Result<()> {
        extend::publish(&self.driver, &self.held, note).await
    }

    /// Releases the lock: renewal stops, then the store is told. Waits for its answer for the
    /// client's call timeout at most.
    ///
    /// # Errors
    ///
    /// `Lost` when the lock was lost before, whoever noticed first: the work may have run together
    /// with another's. `Ambiguous` or `Unavailable` when the store did not answer: the release is
    /// tried again in the background until the TTL has passed.
    ///
    /// # Cancel safety
    ///
    /// Safe: the release goes on in the background.
    pub async fn release(self) -> Result<()> {
        release::release(&self.driver, &self.held).await
    }

    /// Turns a writer into a reader without letting go: others may read from here on, under the
    /// same fencing token, and no writer came in between.
    ///
    /// # Errors
    ///
    /// `Lost` when the lock was lost before; `Unsupported` where the store cannot; `Unavailable`,
    /// `Ambiguous`. After an error the lock is released.
    ///
    /// # Cancel safety
    ///
    /// Safe: the lock is released in the background.
    pub async fn downgrade(self) -> Result<Self> {
        if self.held.mode == Mode::Read {
            return Ok(self);
        }
        let reader = release::downgrade(&self.driver, &self.held).await?;
        Ok(Self::new(Arc::clone(&self.driver), reader))
    }

    /// Hands the lock over to another process: the entry in the store lives by its TTL alone from
    /// here on, and whoever [adopts](crate::Client::adopt) the lease goes on with it.
    ///
    /// # Errors
    ///
    /// `Lost` when the lock was lost before; `Unsupported` where a lease cannot outlive its
    /// process; `Unavailable`, `Ambiguous`. After an error the lock is released.
    ///
    /// # Cancel safety
    ///
    /// Safe: the lock is released in the background.
    pub async fn into_lease(self) -> Result<Lease> {
        let held = &self.held;
        let lease = Lease {
            name: held.name.clone(),
            owner: held.owner.clone(),
            mode: held.mode,
            token: held.token,
            ttl: held.ttl(),
            min_hold: held.min_hold,
        };
        release::detach(&self.driver, held).await?;
        Ok(lease)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        release::release_later(&self.driver, &self.held);
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.held.name)
            .field("fencing_token", &self.held.token)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
