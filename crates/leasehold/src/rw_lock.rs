use std::time::Duration;

use leasehold_core::Mode;

use crate::{
    client::Client,
    driver::acquire::Patience,
    error::Result,
    guard::Guard,
    terms::{Terms, terms},
};

/// A readers-writer lock by name: many readers at once, or one writer.
///
/// A writer holds the same lock as [`Client::lock`] of that name, so readers keep plain lockers out
/// and the other way round.
///
/// First come, first served on stores that are fair: readers that stand together are let in
/// together, a waiting writer stops readers that come after it, and neither side starves. A waiter
/// that died in front holds up those behind it for three heartbeats, at most 9 s.
///
/// A reader that asks for the write lock waits for itself: release the read guard first. Readers of
/// one phase share a fencing token; every new phase and every writer has a greater one.
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct RwLock {
    terms: Terms,
}

impl RwLock {
    pub(crate) const fn new(client: Client, name: String) -> Self {
        Self {
            terms: Terms::new(client, name),
        }
    }

    /// Acquires the lock to read, waiting its turn.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn read(&self) -> Result<Guard> {
        self.terms.wait(Mode::Read, Patience::Unlimited).await
    }

    /// As [`read`](Self::read), for `limit` at most.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire_timeout`](crate::Lock::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn read_timeout(&self, limit: Duration) -> Result<Guard> {
        self.terms.wait(Mode::Read, Patience::Within(limit)).await
    }

    /// Acquires the lock to read if no writer holds it or waits for it; `None` if not.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn try_read(&self) -> Result<Option<Guard>> {
        self.terms.take(Mode::Read, Patience::Try).await
    }

    /// Acquires the lock to write, waiting its turn.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn write(&self) -> Result<Guard> {
        self.terms.wait(Mode::Exclusive, Patience::Unlimited).await
    }

    /// As [`write`](Self::write), for `limit` at most.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire_timeout`](crate::Lock::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn write_timeout(&self, limit: Duration) -> Result<Guard> {
        self.terms
            .wait(Mode::Exclusive, Patience::Within(limit))
            .await
    }

    /// Acquires the lock to write if nobody holds it or waits for it; `None` if not.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn try_write(&self) -> Result<Option<Guard>> {
        self.terms.take(Mode::Exclusive, Patience::Try).await
    }
}

terms!(RwLock);
