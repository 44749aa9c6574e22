//! What is held while a command runs, however it is held.

use leasehold::{Error, Guard, Leadership, Loss, MultiGuard, Ttl};

use crate::time::Instant;

/// One lock, several at once, or the lead.
#[derive(Debug)]
pub(crate) enum Held {
    One(Guard),
    Several(MultiGuard),
    Lead(Leadership),
}

impl Held {
    /// What is held, in the order of the names.
    pub(crate) fn guards(&self) -> Vec<&Guard> {
        match self {
            Self::One(guard) => vec![guard],
            Self::Several(guards) => guards.guards().iter().collect(),
            Self::Lead(lead) => vec![lead.guard()],
        }
    }

    /// Until when all of it may be trusted.
    pub(crate) fn deadline(&self) -> Instant {
        let deadlines = self.guards().into_iter().map(Guard::deadline);
        deadlines.min().unwrap_or(Instant::ORIGIN)
    }

    /// How long all of it may still be trusted.
    pub(crate) fn remaining(&self) -> std::time::Duration {
        let left = self.guards().into_iter().map(Guard::remaining);
        left.min().unwrap_or_default()
    }

    /// The TTL in effect.
    pub(crate) fn ttl(&self) -> Ttl {
        let ttls = self.guards().into_iter().map(Guard::ttl);
        ttls.min().unwrap_or(Ttl::MIN)
    }

    /// Makes sure all of it is held.
    ///
    /// # Errors
    ///
    /// It is lost.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.guards().into_iter().try_for_each(Guard::check)
    }

    /// Waits until any of it is lost.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub(crate) async fn lost(&self) -> Loss {
        match self {
            Self::One(guard) => guard.lost().await,
            Self::Several(guards) => guards.lost().await.1,
            Self::Lead(lead) => lead.lost().await,
        }
    }

    /// Gives it back.
    ///
    /// # Errors
    ///
    /// It was lost, or that it is free is not confirmed.
    ///
    /// # Cancel safety
    ///
    /// Safe: it goes on in the background.
    pub(crate) async fn release(self) -> Result<(), Error> {
        match self {
            Self::One(guard) => guard.release().await,
            Self::Several(guards) => guards.release().await,
            Self::Lead(lead) => lead.resign().await,
        }
    }
}
