use std::time::Duration;

use leasehold_core::Mode;

use crate::{
    client::Client,
    driver::acquire::Patience,
    error::Result,
    guard::Guard,
    run::{self, RunError},
    terms::{Terms, terms},
};

/// A lock by name: who asks for it and how. Holding it is a [`Guard`].
///
/// Cheap to clone and to keep. Every acquisition has an owner of its own, so one `Lock` may be used
/// by any number of tasks at once; it is not re-entrant: a task that acquires twice waits for
/// itself.
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock {
    terms: Terms,
}

impl Lock {
    pub(crate) const fn new(client: Client, name: String) -> Self {
        Self {
            terms: Terms::new(client, name),
        }
    }

    pub(crate) const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Keeps the name taken for at least this long after the grant, also after a release or a
    /// crash: for short jobs on hosts whose clocks differ. At most 24 h.
    pub const fn with_min_hold(mut self, span: Duration) -> Self {
        self.terms.min_hold = Some(span);
        self
    }

    /// Acquires the lock, waiting its turn: first come, first served where the store can.
    ///
    /// Waits up to a year, and through outages of the store: use
    /// [`acquire_timeout`](Self::acquire_timeout) for a limit.
    ///
    /// # Errors
    ///
    /// `Invalid` for a name or setting that is not allowed, before anything is sent; `Denied`,
    /// `Conflict`, `Unsupported`, `Protocol`, which waiting would not mend; `Unavailable` when the
    /// client was shut down, its runtime has ended, or this is a forked child.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future leaves the queue and undoes a grant that may have been made, in
    /// the background.
    pub async fn acquire(&self) -> Result<Guard> {
        self.terms.wait(Mode::Exclusive, Patience::Unlimited).await
    }

    /// As [`acquire`](Self::acquire), for `limit` at most (and up to 1 s more to leave the queue).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); `Timeout` when another held the lock to the end;
    /// `Unavailable` or `Ambiguous`, with the cause, when the store was away at the end.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Guard> {
        self.terms
            .wait(Mode::Exclusive, Patience::Within(limit))
            .await
    }

    /// Acquires the lock if it is free and nobody waits for it; `None` if not. That it is held is
    /// no error.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); `Unavailable` or `Ambiguous` when the store is away: it is
    /// asked once.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.terms.take(Mode::Exclusive, Patience::Try).await
    }

    /// Acquires the lock, runs `work` under it, and releases it. The work is dropped when the lock
    /// is lost.
    ///
    /// # Errors
    ///
    /// [`RunError::NotAcquired`] and then `work` did not run; [`RunError::Lost`] when it was
    /// dropped; [`RunError::LostAfter`], with its result, when it ended after the lock was lost. A
    /// release that is not confirmed does not hide the result of the work: it goes on in the
    /// background.
    ///
    /// # Cancel safety
    ///
    /// Safe as far as `work` is: it is dropped, then the lock is released in the background.
    pub async fn run<T, F>(&self, work: F) -> Result<T, RunError<T>>
    where
        F: AsyncFnOnce(&Guard) -> T,
    {
        let guard = self.acquire().await.map_err(RunError::NotAcquired)?;
        run::run(guard, work).await
    }
}

terms!(Lock);
