//! What a command is to be run under, and how long to wait for it.

use std::time::Duration;

use leasehold::{Election, Error, Lock, MultiLock, RwLock, Semaphore};

use crate::{cli::Waiting, held::Held};

/// What is to be held.
#[derive(Debug)]
pub(crate) enum Want {
    Alone(Lock),
    AsReader(RwLock),
    Permit(Semaphore),
    Several(MultiLock),
    /// The lead, with what the leader says of itself.
    Lead(Election, String),
}

/// How patiently to ask.
enum Patience {
    Try,
    Within(Duration),
    Unlimited,
}

impl Want {
    /// Takes it; `None` when it is not to be had and nobody wants to wait.
    ///
    /// # Errors
    ///
    /// It was not taken.
    ///
    /// # Cancel safety
    ///
    /// Safe: what was taken is given back in the background.
    pub(crate) async fn take(&self, waiting: Waiting) -> Result<Option<Held>, Error> {
        let patience = Patience::from(waiting);
        match self {
            Self::Alone(lock) => Ok(take(lock, waiting).await?.map(Held::One)),
            Self::AsReader(lock) => Ok(match patience {
                Patience::Try => lock.try_read().await?,
                Patience::Within(limit) => Some(lock.read_timeout(limit).await?),
                Patience::Unlimited => Some(lock.read().await?),
            }
            .map(Held::One)),
            Self::Permit(pool) => Ok(match patience {
                Patience::Try => pool.try_acquire().await?,
                Patience::Within(limit) => Some(pool.acquire_timeout(limit).await?),
                Patience::Unlimited => Some(pool.acquire().await?),
            }
            .map(Held::One)),
            Self::Several(all) => Ok(match patience {
                Patience::Try => all.try_acquire().await?,
                Patience::Within(limit) => Some(all.acquire_timeout(limit).await?),
                Patience::Unlimited => Some(all.acquire().await?),
            }
            .map(Held::Several)),
            Self::Lead(election, value) => Ok(match patience {
                Patience::Try => election.try_campaign(value).await?,
                Patience::Within(limit) => Some(election.campaign_timeout(value, limit).await?),
                Patience::Unlimited => Some(election.campaign(value).await?),
            }
            .map(Held::Lead)),
        }
    }
}

/// Takes `lock`; `None` when another holds it and nobody wants to wait.
///
/// # Errors
///
/// It was not taken.
///
/// # Cancel safety
///
/// Safe: what was taken is given back in the background.
pub(crate) async fn take(lock: &Lock, waiting: Waiting) -> Result<Option<leasehold::Guard>, Error> {
    match Patience::from(waiting) {
        Patience::Try => lock.try_acquire().await,
        Patience::Within(limit) => lock.acquire_timeout(limit).await.map(Some),
        Patience::Unlimited => lock.acquire().await.map(Some),
    }
}

impl From<Waiting> for Patience {
    fn from(waiting: Waiting) -> Self {
        match waiting.wait {
            _ if waiting.no_wait => Self::Try,
            // No time at all is not even enough to ask.
            Some(limit) if limit.is_zero() => Self::Try,
            Some(limit) => Self::Within(limit),
            None => Self::Unlimited,
        }
    }
}
