use std::time::Duration;

use leasehold_core::{FencingToken, Instant, Mode, Name, Owner, Ttl, lease::Loss};

use crate::{CancellationToken, Lease, driver::OwnThread, error::Result};

/// A lock that is held, as [`crate::Guard`]. Dropping it releases the lock in the background.
#[derive(Debug)]
#[must_use = "if unused, the lock is released at once"]
pub struct Guard {
    inner: crate::Guard,
    thread: OwnThread,
}

impl Guard {
    pub(super) fn new(inner: crate::Guard, thread: &OwnThread) -> Self {
        Self {
            inner,
            thread: thread.clone(),
        }
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &Name {
        self.inner.name()
    }

    /// The unique id of this acquisition.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        self.inner.owner()
    }

    /// How the lock is held.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.inner.mode()
    }

    /// The TTL in effect.
    #[must_use]
    pub fn ttl(&self) -> Ttl {
        self.inner.ttl()
    }

    /// The number for the protected resource to check.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.inner.fencing_token()
    }

    /// The instant at which validity ends unless a renewal moves it.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.inner.deadline()
    }

    /// How much validity is left; zero once the lock is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.inner.remaining()
    }

    /// Whether the lock is held, by the holder's own clock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.inner.is_held()
    }

    /// Makes sure the lock is held, by the holder's own clock. Asks no one and takes no time.
    ///
    /// # Errors
    ///
    /// `Lost`, with the reason.
    pub fn check(&self) -> Result<()> {
        self.inner.check()
    }

    /// Waits until the lock is lost, for `limit` at most; `None` when it still is held then.
    #[must_use]
    pub fn lost_within(&self, limit: Duration) -> Option<Loss> {
        let signal = self.inner.lost_signal();
        let waited = self.thread.wait(async move {
            tokio::time::timeout(limit, signal.cancelled())
                .await
                .is_ok()
        });
        // The deadline decides, not the thread that should have told of it.
        let _ = waited;
        self.inner
            .check()
            .err()
            .map(|error| error.loss().unwrap_or(Loss::Expired))
    }

    /// A signal that is given when the lock is lost, for code that takes one.
    #[must_use]
    pub fn lost_signal(&self) -> CancellationToken {
        self.inner.lost_signal()
    }

    /// Lengthens the lease to `ttl` from now, once, and answers the new deadline.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::extend`].
    pub fn extend(&self, ttl: Duration) -> Result<Instant> {
        let call = self.inner.begin_extension(ttl)?;
        self.thread.wait(call)?
    }

    /// Turns a writer into a reader without letting go.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::downgrade`].
    pub fn downgrade(self) -> Result<Self> {
        let Self { inner, thread } = self;
        let inner = thread.wait(async move { inner.downgrade().await })??;
        Ok(Self { inner, thread })
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::release`].
    pub fn release(self) -> Result<()> {
        let Self { inner, thread } = self;
        thread.wait(async move { inner.release().await })?
    }

    /// Hands the lock over to another process.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::into_lease`].
    pub fn into_lease(self) -> Result<Lease> {
        let Self { inner, thread } = self;
        thread.wait(async move { inner.into_lease().await })?
    }
}

/// Several locks that are held, as one: as [`crate::MultiGuard`].
#[derive(Debug)]
#[must_use = "if unused, the locks are released at once"]
pub struct MultiGuard {
    inner: crate::MultiGuard,
    thread: OwnThread,
}

impl MultiGuard {
    pub(super) fn new(inner: crate::MultiGuard, thread: &OwnThread) -> Self {
        Self {
            inner,
            thread: thread.clone(),
        }
    }

    /// The fencing token of the lock `name`; none when it is not among them.
    #[must_use]
    pub fn fencing_token(&self, name: &str) -> Option<FencingToken> {
        self.inner.guard(name).map(crate::Guard::fencing_token)
    }

    /// The earliest deadline.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.inner.deadline()
    }

    /// The least validity left.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.inner.remaining()
    }

    /// Makes sure all locks are held, by the holder's own clock.
    ///
    /// # Errors
    ///
    /// `Lost`, with the name of one that is lost.
    pub fn check(&self) -> Result<()> {
        self.inner.check()
    }

    /// Releases all locks.
    ///
    /// # Errors
    ///
    /// As [`crate::MultiGuard::release`].
    pub fn release(self) -> Result<()> {
        let Self { inner, thread } = self;
        thread.wait(async move { inner.release().await })?
    }
}
