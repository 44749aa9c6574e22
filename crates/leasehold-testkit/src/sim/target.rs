//! What a worker asks for: a lock in one of its forms.

use std::time::Duration;

use leasehold::{Client, Election, Lock, Renew, RwLock, Semaphore};

use super::{claim::Claim, dice::Dice};
use crate::history::Manner;

/// How many permits the semaphores have.
const LIMIT: u32 = 2;

/// How long a name stays taken at least, where that is asked for.
pub(super) const MIN_HOLD: Duration = Duration::from_millis(250);

/// A lock in the form in which it is to be acquired.
pub(super) enum Target {
    Alone(Lock),
    Reader(RwLock),
    Writer(RwLock),
    Permits(Semaphore, u32),
    Leader(Election),
}

impl Target {
    /// A name that begins with `rw` is read and written, one with `s` counts permits, one with `e`
    /// is led, and all others are locked alone.
    pub(super) fn new(client: &Client, name: &str, dice: &Dice) -> Self {
        if name.starts_with("rw") {
            match dice.below(5) {
                0 => Self::Alone(client.lock(name)),
                1 => Self::Writer(client.rw_lock(name)),
                _ => Self::Reader(client.rw_lock(name)),
            }
        } else if name.starts_with('s') {
            let weight = if dice.chance(200) { LIMIT } else { 1 };
            Self::Permits(client.semaphore(name, LIMIT), weight)
        } else if name.starts_with('e') {
            Self::Leader(client.election(name))
        } else if dice.chance(100) {
            Self::Alone(client.lock(name).with_min_hold(MIN_HOLD))
        } else {
            Self::Alone(client.lock(name))
        }
    }

    pub(super) fn with(self, ttl: Duration, renew: Renew, label: &str) -> Self {
        macro_rules! set {
            ($lock:expr) => {
                $lock.with_ttl(ttl).with_renew(renew).with_label(label)
            };
        }
        match self {
            Self::Alone(lock) => Self::Alone(set!(lock)),
            Self::Reader(lock) => Self::Reader(set!(lock)),
            Self::Writer(lock) => Self::Writer(set!(lock)),
            Self::Permits(lock, weight) => Self::Permits(set!(lock), weight),
            Self::Leader(election) => Self::Leader(election.with_ttl(ttl).with_label(label)),
        }
    }

    pub(super) const fn manner(&self) -> Manner {
        match self {
            Self::Alone(_) | Self::Writer(_) | Self::Leader(_) => Manner::Exclusive,
            Self::Reader(_) => Manner::Read,
            Self::Permits(_, weight) => Manner::Permit {
                limit: LIMIT,
                weight: *weight,
            },
        }
    }

    /// Whether it is renewed until it is released when `renew` is asked for.
    pub(super) fn is_kept(&self, renew: Renew) -> bool {
        renew == Renew::UntilReleased || matches!(self, Self::Leader(_))
    }

    pub(super) async fn wait(&self) -> Option<Claim> {
        let guard = match self {
            Self::Alone(lock) => lock.acquire().await,
            Self::Reader(lock) => lock.read().await,
            Self::Writer(lock) => lock.write().await,
            Self::Permits(lock, weight) => lock.acquire_many(*weight).await,
            Self::Leader(election) => {
                let leadership = election.campaign("a value").await;
                return leadership.ok().map(Claim::Lead);
            }
        };
        guard.ok().map(Claim::Lock)
    }

    pub(super) async fn within(&self, limit: Duration) -> Option<Claim> {
        let guard = match self {
            Self::Alone(lock) => lock.acquire_timeout(limit).await,
            Self::Reader(lock) => lock.read_timeout(limit).await,
            Self::Writer(lock) => lock.write_timeout(limit).await,
            Self::Permits(lock, 1) => lock.acquire_timeout(limit).await,
            Self::Permits(..) => return tokio::time::timeout(limit, self.wait()).await.ok()?,
            Self::Leader(election) => {
                let leadership = election.campaign_timeout("a value", limit).await;
                return leadership.ok().map(Claim::Lead);
            }
        };
        guard.ok().map(Claim::Lock)
    }

    pub(super) async fn attempt(&self) -> Option<Claim> {
        let guard = match self {
            Self::Alone(lock) => lock.try_acquire().await,
            Self::Reader(lock) => lock.try_read().await,
            Self::Writer(lock) => lock.try_write().await,
            Self::Permits(lock, weight) => lock.try_acquire_many(*weight).await,
            Self::Leader(_) => return self.within(Duration::from_millis(100)).await,
        };
        guard.ok().flatten().map(Claim::Lock)
    }
}
