//! The leases that this process has, and the owners that have asked.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use leasehold_core::{FencingToken, Instant, Name, Owner};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::lane::Orders;
use crate::backend::node::Slots;

/// How many owners are remembered as used up, and as given up.
const REMEMBERED: usize = 4096;

/// What this process has taken.
#[derive(Debug, Default)]
pub(super) struct Leases {
    held: Mutex<HashMap<(Name, Owner), Lease>>,
    /// The slots of leases that another process took and this one carries on.
    found: Mutex<HashMap<(Name, Owner), Slots>>,
    spent: Mutex<Recent>,
    given_up: Mutex<Recent>,
    /// For each attempt whose lanes are at work, what ends with each lane.
    at_work: Mutex<HashMap<Owner, Vec<CancellationToken>>>,
    /// The last stamp of a note.
    stamp: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Lease {
    pub(super) token: FencingToken,
    pub(super) slots: Slots,
    /// When it was surely had.
    pub(super) since: Instant,
    /// For each node the lane that may still be at work; none where nothing was asked.
    pub(super) lanes: Vec<Option<Orders>>,
}

/// The last few owners of some kind.
#[derive(Debug, Default)]
struct Recent {
    order: VecDeque<Owner>,
    owners: HashSet<Owner>,
}

impl Recent {
    /// `false` if it is there already.
    fn insert(&mut self, owner: &Owner) -> bool {
        if !self.owners.insert(owner.clone()) {
            return false;
        }
        self.order.push_back(owner.clone());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.owners.remove(&oldest);
        }
        true
    }
}

impl Leases {
    /// Notes that `owner` asks; `false` if it has asked before.
    pub(super) fn spend(&self, owner: &Owner) -> bool {
        lock(&self.spent).insert(owner)
    }

    /// Notes that `owner` gives up what it has: from now on nothing may be given to it.
    pub(super) fn give_up(&self, owner: &Owner) {
        lock(&self.given_up).insert(owner);
    }

    /// Whether `owner` has given up what it had, a short while ago at most.
    pub(super) fn is_given_up(&self, owner: &Owner) -> bool {
        lock(&self.given_up).owners.contains(owner)
    }

    /// Notes that an attempt has lanes to so many nodes: one pass for each, dropped when it ends.
    pub(super) fn begin(self: &Arc<Self>, owners: Vec<Owner>, nodes: usize) -> Vec<Pass> {
        let ends: Vec<CancellationToken> = (0..nodes).map(|_| CancellationToken::new()).collect();
        let entry = Arc::new(Entry {
            leases: Arc::clone(self),
            owners: owners.clone(),
        });
        let passes = ends.iter().map(|end| Pass {
            _end: end.clone().drop_guard(),
            _entry: Arc::clone(&entry),
        });
        let passes = passes.collect();
        let entries = owners.into_iter().map(|owner| (owner, ends.clone()));
        self.at_work().extend(entries);
        passes
    }

    /// What ends with the lane of `owner` to the node `at`, if that may still be at work.
    pub(super) fn end_of(&self, owner: &Owner, at: usize) -> Option<CancellationToken> {
        self.at_work()
            .get(owner)
            .and_then(|ends| ends.get(at).cloned())
    }

    pub(super) fn add(&self, name: &Name, owner: &Owner, lease: Lease) {
        self.held().insert((name.clone(), owner.clone()), lease);
    }

    pub(super) fn remove(&self, name: &Name, owner: &Owner) -> Option<Lease> {
        let key = (name.clone(), owner.clone());
        self.found().remove(&key);
        self.held().remove(&key)
    }

    /// Which slots a lease has, as far as this process knows.
    pub(super) fn slots(&self, name: &Name, owner: &Owner) -> Option<Slots> {
        let key = (name.clone(), owner.clone());
        let own = self.held().get(&key).map(|lease| lease.slots.clone());
        own.or_else(|| self.found().get(&key).cloned())
    }

    /// Notes which slots a lease of another process has.
    pub(super) fn find(&self, name: &Name, owner: &Owner, slots: Slots) {
        self.found().insert((name.clone(), owner.clone()), slots);
    }

    /// The fencing token of a lease that is had.
    pub(super) fn token(&self, name: &Name, owner: &Owner) -> Option<FencingToken> {
        let held = self.held();
        held.get(&(name.clone(), owner.clone()))
            .map(|lease| lease.token)
    }

    /// A stamp for a note, greater than any before and not below `wall_micros`.
    pub(super) fn stamp(&self, wall_micros: u64) -> u64 {
        let later = |last: u64| Some(wall_micros.max(last + 1));
        let last = self
            .stamp
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
        wall_micros.max(last.unwrap_or_default() + 1)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<(Name, Owner), Lease>> {
        lock(&self.held)
    }

    fn found(&self) -> MutexGuard<'_, HashMap<(Name, Owner), Slots>> {
        lock(&self.found)
    }

    fn at_work(&self) -> MutexGuard<'_, HashMap<Owner, Vec<CancellationToken>>> {
        lock(&self.at_work)
    }
}

/// Held by a lane for as long as it works.
#[derive(Debug)]
pub(super) struct Pass {
    _end: DropGuard,
    _entry: Arc<Entry>,
}

/// Shared by the lanes of one attempt; the last one to end takes it along.
#[derive(Debug)]
struct Entry {
    leases: Arc<Leases>,
    owners: Vec<Owner>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut at_work = self.leases.at_work();
        for owner in &self.owners {
            at_work.remove(owner);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
