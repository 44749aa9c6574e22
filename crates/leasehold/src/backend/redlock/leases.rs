//! The leases that this process has, and the owners that have asked.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use leasehold_core::{FencingToken, Name, Owner};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::lane::Orders;

/// How many owners are remembered as used up.
const REMEMBERED: usize = 4096;

/// What this process has taken.
#[derive(Debug, Default)]
pub(super) struct Leases {
    held: Mutex<HashMap<(Name, Owner), Lease>>,
    spent: Mutex<Spent>,
    /// For each attempt whose lanes are at work, what ends with each lane.
    at_work: Mutex<HashMap<Owner, Vec<CancellationToken>>>,
}

#[derive(Debug)]
pub(super) struct Lease {
    pub(super) token: FencingToken,
    /// For each node the lane that may still be at work; none where nothing was asked.
    pub(super) lanes: Vec<Option<Orders>>,
}

#[derive(Debug, Default)]
struct Spent {
    order: VecDeque<Owner>,
    owners: HashSet<Owner>,
}

impl Leases {
    /// Notes that `owner` asks; `false` if it has asked before.
    pub(super) fn spend(&self, owner: &Owner) -> bool {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if !spent.owners.insert(owner.clone()) {
            return false;
        }
        spent.order.push_back(owner.clone());
        if spent.order.len() > REMEMBERED
            && let Some(oldest) = spent.order.pop_front()
        {
            spent.owners.remove(&oldest);
        }
        true
    }

    /// Notes that an attempt has lanes to so many nodes: one pass for each, dropped when it ends.
    pub(super) fn begin(self: &Arc<Self>, owner: &Owner, nodes: usize) -> Vec<Pass> {
        let ends: Vec<CancellationToken> = (0..nodes).map(|_| CancellationToken::new()).collect();
        let entry = Arc::new(Entry {
            leases: Arc::clone(self),
            owner: owner.clone(),
        });
        let passes = ends.iter().map(|end| Pass {
            _end: end.clone().drop_guard(),
            _entry: Arc::clone(&entry),
        });
        let passes = passes.collect();
        self.at_work().insert(owner.clone(), ends);
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
        self.held().remove(&(name.clone(), owner.clone()))
    }

    /// The fencing token of a lease that is had.
    pub(super) fn token(&self, name: &Name, owner: &Owner) -> Option<FencingToken> {
        let held = self.held();
        held.get(&(name.clone(), owner.clone()))
            .map(|lease| lease.token)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<(Name, Owner), Lease>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at_work(&self) -> MutexGuard<'_, HashMap<Owner, Vec<CancellationToken>>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
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
    owner: Owner,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.leases.at_work().remove(&self.owner);
    }
}
