use std::time::Duration;

use leasehold_core::Mode;

use crate::{
    client::Client,
    driver::acquire::Patience,
    error::Result,
    guard::Guard,
    terms::{Terms, terms},
};

/// A semaphore by name: at most so many permits are out at once.
///
/// Every permit has an owner and a lease, so one that died gives its permits back after one TTL,
/// and a late or repeated release never makes them more.
///
/// All who use a name must give the same number of permits: with another one a try is a
/// `Conflict`, and a waiter waits until those that hold now are gone. Holders that overlap share a
/// fencing token, so it does not tell a late holder from its successor: a semaphore bounds load, it
/// does not guard data.
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until a permit is acquired"]
pub struct Semaphore {
    terms: Terms,
    permits: u32,
}

impl Semaphore {
    pub(crate) const fn new(client: Client, name: String, permits: u32) -> Self {
        Self {
            terms: Terms::new(client, name),
            permits,
        }
    }

    /// How many permits there are in all.
    #[must_use]
    pub const fn permits(&self) -> u32 {
        self.permits
    }

    /// Acquires one permit, waiting its turn.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire); `Invalid` for a number of permits outside 1 to
    /// 1 000 000.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn acquire(&self) -> Result<Guard> {
        self.acquire_many(1).await
    }

    /// As [`acquire`](Self::acquire), for `limit` at most.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire_timeout`](crate::Lock::acquire_timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Guard> {
        self.terms
            .wait(self.mode(1)?, Patience::Within(limit))
            .await
    }

    /// Acquires one permit if one is free and nobody waits; `None` if not.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.try_acquire_many(1).await
    }

    /// Acquires `count` permits at once under one guard, waiting its turn.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); `Invalid` for none or more than there are.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn acquire_many(&self, count: u32) -> Result<Guard> {
        self.terms
            .wait(self.mode(count)?, Patience::Unlimited)
            .await
    }

    /// Acquires `count` permits at once if they are free and nobody waits; `None` if not.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn try_acquire_many(&self, count: u32) -> Result<Option<Guard>> {
        self.terms.take(self.mode(count)?, Patience::Try).await
    }

    fn mode(&self, count: u32) -> Result<Mode> {
        Ok(Mode::permits(self.permits, count)?)
    }
}

terms!(Semaphore);
