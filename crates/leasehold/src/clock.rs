//! The one place that reads time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use leasehold_core::Instant;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

/// A clock that runs through suspend, and sleeps by it.
///
/// Timers only wake: whoever slept asks the clock again, because tokio's timers stand still while
/// the machine sleeps and the clock does not.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// `CLOCK_BOOTTIME` on Linux; elsewhere the nearest the system has.
    System,
    /// tokio's clock, which tests can pause, plus what it was made to leap.
    Virtual(Arc<Virtual>),
}

#[derive(Debug)]
struct Virtual {
    origin: tokio::time::Instant,
    leapt: AtomicU64,
    leap: Notify,
}

impl Clock {
    /// The system's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock for tests: it follows tokio's, paused or not, and can be made to leap.
    #[must_use]
    #[allow(clippy::disallowed_methods)]
    pub fn virtual_time() -> Self {
        let origin = tokio::time::Instant::now();
        Self(Source::Virtual(Arc::new(Virtual {
            origin,
            leapt: AtomicU64::new(0),
            leap: Notify::new(),
        })))
    }

    /// The time now.
    #[must_use]
    #[allow(clippy::disallowed_methods)]
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::System => boot_time(),
            Source::Virtual(clock) => {
                // Starts away from the origin, so that "before the start" is a time too.
                const START: Instant = Instant::from_nanos(1_000_000_000_000);
                let leapt = Duration::from_nanos(clock.leapt.load(Ordering::SeqCst));
                START.after(clock.origin.elapsed()).after(leapt)
            }
        }
    }

    /// The wall clock in microseconds since 1970, which only seeds fencing tokens.
    #[must_use]
    #[allow(clippy::disallowed_methods)]
    pub fn wall_micros(&self) -> u64 {
        match &self.0 {
            Source::System => {
                let wall = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                u64::try_from(wall.as_micros()).unwrap_or(u64::MAX)
            }
            Source::Virtual(_) => self.now().as_nanos() / 1000,
        }
    }

    /// Moves a virtual clock forward at once, as a suspended machine's does; the system's stays.
    pub fn leap(&self, span: Duration) {
        if let Source::Virtual(clock) = &self.0 {
            let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
            clock.leapt.fetch_add(nanos, Ordering::SeqCst);
            clock.leap.notify_waiters();
        }
    }

    /// Waits until the clock shows `at` or later. Wakes late after a suspend, never early.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing but the waiting is lost.
    pub async fn sleep_until(&self, at: Instant) {
        loop {
            let left = at - self.now();
            if left.is_zero() {
                return;
            }
            // Longer sleeps than this gain nothing, and tokio has an upper limit of its own.
            let nap = left.min(Duration::from_secs(24 * 60 * 60));
            match &self.0 {
                Source::System => tokio::time::sleep(nap).await,
                Source::Virtual(clock) => {
                    let leap = clock.leap.notified();
                    if (at - self.now()).is_zero() {
                        return;
                    }
                    tokio::select! { biased; () = leap => {} () = tokio::time::sleep(nap) => {} }
                }
            }
        }
    }
}

#[allow(clippy::disallowed_methods)]
fn boot_time() -> Instant {
    #[cfg(target_os = "linux")]
    const ID: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const ID: ClockId = ClockId::Monotonic;
    let now = clock_gettime(ID);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    Instant::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}
