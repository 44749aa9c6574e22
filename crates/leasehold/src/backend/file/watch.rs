//! What nobody sends news of: that a process has died, and that news got lost.
//!
//! While clients of this process wait, the database is read ten times a second. Reading needs no
//! gate and writes nothing, so that waiting for hours costs next to nothing. If something is
//! amiss, a waiter is told to ask again, and its asking puts the entry in order.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold_core::Instant;

use super::{super::Owner, read::Reader};

/// How often to look; less often when a look at very many names takes long.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

/// The waiters of this process.
#[derive(Debug)]
pub(super) struct Watch {
    waiting: Mutex<HashMap<Owner, Waiting>>,
    reader: Arc<Reader>,
}

#[derive(Debug)]
struct Waiting {
    key: String,
    ticket: u64,
    /// When it counts as dead unless it asks again: should it be forgotten here, for long.
    until: Instant,
}

impl Watch {
    pub(super) fn new(reader: Arc<Reader>) -> Self {
        Self {
            waiting: Mutex::default(),
            reader,
        }
    }

    /// Looks after a waiter from now on; `true` if it is the first.
    pub(super) fn add(&self, owner: &Owner, key: &str, ticket: u64, until: Instant) -> bool {
        let mut waiting = self.lock();
        let key = key.into();
        waiting.insert(owner.clone(), Waiting { key, ticket, until });
        waiting.len() == 1
    }

    pub(super) fn remove(&self, owner: &Owner) {
        self.lock().remove(owner);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.lock().is_empty()
    }

    /// Those who should ask again: who hold a lock without having been told, and the first of this
    /// process behind one who is gone.
    pub(super) fn look(&self, now: Instant) -> Vec<Owner> {
        let mut first: HashMap<String, (u64, Owner)> = HashMap::new();
        {
            let mut waiting = self.lock();
            waiting.retain(|_, it| now < it.until);
            for (owner, it) in &*waiting {
                let candidate = (it.ticket, owner.clone());
                first
                    .entry(it.key.clone())
                    .and_modify(|first| *first = first.clone().min(candidate.clone()))
                    .or_insert(candidate);
            }
        }
        let mut told = HashSet::new();
        let mut sessions = self.reader.sessions();
        for (key, (_, owner)) in first {
            // What cannot be read now is looked at again next time.
            let Ok(seen) = self.reader.look(&key, &mut sessions) else {
                continue;
            };
            let waiting = self.lock();
            told.extend(
                seen.holders
                    .into_iter()
                    .filter(|it| waiting.contains_key(it)),
            );
            if seen.someone_is_gone {
                told.insert(owner);
            }
        }
        told.into_iter().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Owner, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
