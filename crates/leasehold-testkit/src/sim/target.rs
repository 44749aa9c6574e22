//! What a worker asks for: a lock in one of its forms.

use std::time::Duration;

use leasehold::{Client, Guard, Lock, Renew, RwLock, Semaphore};

use super::dice::Dice;
use crate::history::Manner;

/// How many permits the semaphores have.
const LIMIT: u32 = 2;

/// A lock in the form in which it is to be acquired.
pub(super) enum Target {
    Alone(Lock),
    Reader(RwLock),
    Writer(RwLock),
    Permits(Semaphore, u32),
}

impl Target {
    /// A name that begins with `rw` is read and written, one with `s` counts permits, all others
    /// are locked alone.
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
        }
    }

    pub(super) const fn manner(&self) -> Manner {
        match self {
            Self::Alone(_) | Self::Writer(_) => Manner::Exclusive,
            Self::Reader(_) => Manner::Read,
            Self::Permits(_, weight) => Manner::Permit {
                limit: LIMIT,
                weight: *weight,
            },
        }
    }

    pub(super) async fn wait(&self) -> Option<Guard> {
        match self {
            Self::Alone(lock) => lock.acquire().await.ok(),
            Self::Reader(lock) => lock.read().await.ok(),
            Self::Writer(lock) => lock.write().await.ok(),
            Self::Permits(lock, weight) => lock.acquire_many(*weight).await.ok(),
        }
    }

    pub(super) async fn within(&self, limit: Duration) -> Option<Guard> {
        match self {
            Self::Alone(lock) => lock.acquire_timeout(limit).await.ok(),
            Self::Reader(lock) => lock.read_timeout(limit).await.ok(),
            Self::Writer(lock) => lock.write_timeout(limit).await.ok(),
            Self::Permits(lock, 1) => lock.acquire_timeout(limit).await.ok(),
            Self::Permits(..) => tokio::time::timeout(limit, self.wait()).await.ok()?,
        }
    }

    pub(super) async fn attempt(&self) -> Option<Guard> {
        match self {
            Self::Alone(lock) => lock.try_acquire().await.ok()?,
            Self::Reader(lock) => lock.try_read().await.ok()?,
            Self::Writer(lock) => lock.try_write().await.ok()?,
            Self::Permits(lock, weight) => lock.try_acquire_many(*weight).await.ok()?,
        }
    }
}
