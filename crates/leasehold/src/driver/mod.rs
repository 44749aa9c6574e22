//! What happens between a caller and a store: waiting, renewing, releasing, noticing loss.
//!
//! The algorithms are in `leasehold-core`; here they meet a backend, a clock and a runtime. Three
//! tasks run for each client: the *watchdog* renews, the *reaper* finishes releases nobody waits
//! for, and the *pump* hands the store's events to those they are about. Acquiring itself runs in
//! the caller's task.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold_core::{
    ClientId, Instant, Label, Name, Owner, Renewed, Ttl, lease::Lease, validity::Drift,
};
use tokio::{runtime::Handle, sync::mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::{
    held::{Held, Identity},
    reaper::{Busy, Job, Progress, Reaper},
    registry::Registry,
    watchdog::Schedule,
};
use crate::{
    backend::{ErasedBackend, Events},
    clock::Clock,
    error::{Error, ErrorKind, Result},
    random::Random,
};

pub(crate) mod acquire;
pub(crate) mod acquire_all;
pub(crate) mod adopt;
pub(crate) mod extend;
pub(crate) mod held;
mod pump;
mod reaper;
mod registry;
pub(crate) mod release;
mod thread;
mod watchdog;

pub(crate) use self::thread::OwnThread;

#[cfg(test)]
mod mode_tests;
#[cfg(test)]
mod tests;

/// How a client is set up.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) drift: Drift,
    pub(crate) random: Random,
    /// How long one request may take that has no tighter limit of its own.
    pub(crate) call_limit: Duration,
}

/// One client's machinery. Clients and guards share it; when the last is gone, its tasks finish
/// what is queued and end.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) shared: Arc<Shared>,
    reaper: mpsc::UnboundedSender<Job>,
    /// Ends the watchdog and the pump.
    _stop: DropGuard,
    _thread: Option<OwnThread>,
}

/// What the tasks need too.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn ErasedBackend>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) settings: Settings,
    pub(crate) client: ClientId,
    registry: Registry,
    schedule: Schedule,
    reaping: Arc<Progress>,
    host: String,
    process: u32,
    serial: AtomicU64,
    /// `shutdown` was called: no new locks.
    closing: AtomicBool,
    /// The runtime of the tasks is gone: nothing is renewed any more.
    ended: AtomicBool,
}

impl Driver {
    /// Starts the tasks on `runtime`.
    pub(crate) fn start(
        backend: Arc<dyn ErasedBackend>,
        settings: Settings,
        runtime: &Handle,
        thread: Option<OwnThread>,
    ) -> Arc<Self> {
        let random = settings.random.clone();
        let client = ClientId::new(random.bits());
        let events = backend.attach(&client);
        let shared = Arc::new(Shared {
            clock: backend.clock().unwrap_or_else(Clock::system),
            backend,
            random,
            settings,
            client,
            registry: Registry::default(),
            schedule: Schedule::default(),
            reaping: Arc::default(),
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            process: std::process::id(),
            serial: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let (reaper, stop) = Self::spawn_tasks(&shared, events, runtime);
        Arc::new(Self {
            shared,
            reaper,
            _stop: stop.drop_guard(),
            _thread: thread,
        })
    }

    fn spawn_tasks(
        shared: &Arc<Shared>,
        events: Events,
        runtime: &Handle,
    ) -> (mpsc::UnboundedSender<Job>, CancellationToken) {
        let stop = CancellationToken::new();
        let (sender, jobs) = mpsc::unbounded_channel();
        let reaper = Reaper::new(Arc::clone(shared), jobs);
        let watchdog = watchdog::run(Arc::clone(shared), sender.downgrade());
        let pump = pump::run(Arc::clone(shared), events, sender.downgrade());
        runtime.spawn(reaper.run());
        let until = stop.clone();
        let ending = Ending(Arc::clone(shared), stop.clone());
        runtime.spawn(async move {
            let _ending = ending;
            tokio::select! { biased; () = until.cancelled() => {} () = watchdog => {} }
        });
        let until = stop.clone();
        runtime.spawn(async move {
            tokio::select! { biased; () = until.cancelled() => {} () = pump => {} }
        });
        (sender, stop)
    }

    /// Refuses what cannot be served: in a forked child, after `shutdown`, without a runtime.
    pub(crate) fn check_usable(&self) -> Result<()> {
        let shared = &self.shared;
        let refused = if shared.is_forked() {
            "this client belongs to another process: connect anew after a fork"
        } else if shared.closing.load(Ordering::Acquire) {
            "this client was shut down"
        } else if shared.has_ended() {
            "the runtime this client was connected on has ended"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Unavailable, refused))
    }

    /// Gives a lease to its caller, unless a shutdown went by before it was among those held.
    fn hand_out(self: &Arc<Self>, held: Arc<Held>) -> Result<Arc<Held>> {
        if let Err(refused) = self.check_usable() {
            release::release_later(self, &held);
            return Err(refused);
        }
        Ok(held)
    }

    /// Releases `owner`'s lock, or withdraws it from the queue, without anyone waiting for it.
    pub(crate) fn reap(
        &self,
        name: &Name,
        owner: &Owner,
        min_hold: Option<Duration>,
        ttl: Duration,
    ) {
        if self.shared.is_forked() {
            return;
        }
        let job = self.shared.job(name.clone(), owner.clone(), min_hold, ttl);
        if self.reaper.send(job).is_err() {
            tracing::warn!(
                target: "leasehold", %name,
                "not released: its runtime has ended; the name stays taken until its TTL"
            );
        }
    }

    /// Stops giving locks, releases what is held, and waits for the queued releases and for those
    /// that were still acquiring. `false` when some are not confirmed, or not within `limit`.
    pub(crate) async fn shut_down(&self, limit: Duration) -> Result<bool> {
        let shared = &self.shared;
        if shared.is_forked() {
            self.check_usable()?;
        }
        let before = shared.reaping.unconfirmed();
        shared.closing.store(true, Ordering::Release);
        shared.registry.wake_all();
        for lease in shared.registry.held() {
            if lease.release(shared.clock.now()).is_held() {
                lease.give_signal();
                shared.forget(&lease);
                self.reap(&lease.name, &lease.owner, lease.min_hold, lease.longest());
            }
        }
        let until = shared.clock.now().after(limit);
        Ok(tokio::select! { biased;
            () = shared.reaping.idle() => shared.reaping.unconfirmed() == before,
            () = shared.clock.sleep_until(until) => false,
        })
    }
}

impl Shared {
    /// A new owner for one acquisition.
    pub(crate) fn new_owner(&self, label: &Label) -> Owner {
        Owner::new(
            self.random.wide(),
            &self.client,
            &self.host,
            self.process,
            label,
        )
    }

    /// Whether the tasks are gone with their runtime.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether this code runs in a child forked from the process that connected.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// Has the reaper release what nobody here holds, or no longer; without a minimum hold.
    fn hand_to(
        &self,
        reaper: &mpsc::WeakUnboundedSender<Job>,
        name: &Name,
        owner: &Owner,
        ttl: Duration,
    ) {
        if let Some(reaper) = reaper.upgrade() {
            let _ = reaper.send(self.job(name.clone(), owner.clone(), None, ttl));
        }
    }

    fn job(&self, name: Name, owner: Owner, min_hold: Option<Duration>, ttl: Duration) -> Job {
        // By then the lease is over whatever was sent, and so is a place in the queue.
        const LONGEST_PATIENCE: Duration = Duration::from_secs(9);
        let until = self.clock.now().after(ttl).after(LONGEST_PATIENCE);
        Job {
            name,
            owner,
            min_hold,
            until,
            busy: Busy::new(&self.reaping),
        }
    }

    fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    /// Puts a lease that was just granted to a request sent at `sent` under the watchdog's care.
    fn begin_holding(&self, identity: Identity, sent: Instant, ttl: Ttl) -> Arc<Held> {
        self.begin_with(identity, sent, ttl, ttl)
    }

    /// As [`Self::begin_holding`], for a lease that begins with a longer TTL than it is renewed
    /// with.
    fn begin_with(&self, identity: Identity, sent: Instant, ttl: Ttl, first: Ttl) -> Arc<Held> {
        let (drift, dice) = (self.settings.drift, self.random.bits());
        let now = self.clock.now();
        let mut lease = Lease::granted(sent, now, ttl, drift, identity.renew, dice);
        lease.extended(sent, sent, Renewed::Renewed(first));
        let held = Arc::new(Held::new(identity, lease, self.next_serial()));
        self.registry.hold(&held);
        self.schedule.plan(&held);
        held
    }

    /// Plans anew what is to be done about a lease whose deadline moved.
    pub(crate) fn replan(&self, held: &Arc<Held>) {
        self.schedule.plan(held);
    }

    /// Takes a lease that is over out of the watchdog's and the pump's hands.
    pub(crate) fn forget(&self, lease: &Held) {
        self.schedule.remove(lease);
        self.registry.remove_held(lease);
    }
}

/// Notes that the tasks are gone, also when their runtime was dropped under them.
struct Ending(Arc<Shared>, CancellationToken);

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.1.is_cancelled() {
            self.0.ended.store(true, Ordering::Release);
            self.0.registry.wake_all();
            let held = self.0.registry.held();
            held.iter().for_each(|held| held.give_signal());
        }
    }
}
