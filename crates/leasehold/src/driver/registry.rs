//! Whom an event of the store is about: waiters and holders of this client, by owner.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use leasehold_core::{FencingToken, Owner};
use tokio::sync::Notify;

use super::held::Held;

/// How many owners are remembered whose lease was handed over: a late push for one of them must
/// not be answered by a release.
const HANDED_OVER: usize = 1024;

/// The acquisitions that wait and the leases that are held.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Routes>);

#[derive(Debug, Default)]
struct Routes {
    /// In order, so that a simulation is the same at every run.
    by_owner: BTreeMap<Owner, Route>,
    handed_over: VecDeque<Owner>,
}

#[derive(Debug)]
enum Route {
    Waits(Arc<Mailbox>),
    Holds(Weak<Held>),
}

/// Who was found for an owner.
pub(super) enum Found {
    Waiter(Arc<Mailbox>),
    Holder(Arc<Held>),
    /// Its lease lives on in other hands, or is on its way here.
    HandedOver,
    Nobody,
}

impl Registry {
    /// Opens a mailbox for an acquisition; before its first attempt is sent, for the push can
    /// overtake the answer.
    pub(super) fn wait(&self, owner: &Owner) -> Arc<Mailbox> {
        let mailbox = Arc::new(Mailbox::default());
        self.routes()
            .by_owner
            .insert(owner.clone(), Route::Waits(Arc::clone(&mailbox)));
        mailbox
    }

    pub(super) fn hold(&self, held: &Arc<Held>) {
        let mut routes = self.routes();
        routes.handed_over.retain(|owner| *owner != held.owner);
        let route = Route::Holds(Arc::downgrade(held));
        routes.by_owner.insert(held.owner.clone(), route);
    }

    /// Keeps `owner`'s place for a lease that is about to be held; `false` when it is taken.
    pub(super) fn reserve(&self, owner: &Owner) -> bool {
        let mut routes = self.routes();
        let is_free = !routes.by_owner.contains_key(owner);
        if is_free {
            let route = Route::Holds(Weak::new());
            routes.by_owner.insert(owner.clone(), route);
        }
        is_free
    }

    pub(super) fn remove(&self, owner: &Owner) {
        self.routes().by_owner.remove(owner);
    }

    /// Removes `held`, and no other lease of the same owner that goes on from it.
    pub(super) fn remove_held(&self, held: &Held) {
        let mut routes = self.routes();
        if let Some(Route::Holds(route)) = routes.by_owner.get(&held.owner)
            && std::ptr::eq(route.as_ptr(), held)
        {
            routes.by_owner.remove(&held.owner);
        }
    }

    /// From here on the lease of `owner` may be in other hands.
    pub(super) fn hand_over(&self, owner: &Owner) {
        let mut routes = self.routes();
        if routes.handed_over.len() == HANDED_OVER {
            routes.handed_over.pop_front();
        }
        routes.handed_over.push_back(owner.clone());
    }

    pub(super) fn find(&self, owner: &Owner) -> Found {
        let routes = self.routes();
        match routes.by_owner.get(owner) {
            Some(Route::Waits(mailbox)) => Found::Waiter(Arc::clone(mailbox)),
            Some(Route::Holds(held)) => held.upgrade().map_or(Found::HandedOver, Found::Holder),
            None if routes.handed_over.contains(owner) => Found::HandedOver,
            None => Found::Nobody,
        }
    }

    pub(super) fn held(&self) -> Vec<Arc<Held>> {
        let held = |route: &Route| match route {
            Route::Holds(held) => held.upgrade(),
            Route::Waits(_) => None,
        };
        self.routes().by_owner.values().filter_map(held).collect()
    }

    /// Makes every waiter ask again.
    pub(super) fn wake_all(&self) {
        let waits = |route: &Route| match route {
            Route::Waits(mailbox) => Some(Arc::clone(mailbox)),
            Route::Holds(_) => None,
        };
        let waiting: Vec<_> = self.routes().by_owner.values().filter_map(waits).collect();
        // Not under the lock: waking runs code of the waiter's executor.
        for mailbox in waiting {
            mailbox.put(Push::Again);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.routes().by_owner.len()
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the store pushed to one acquisition and it has not read yet.
///
/// Only the newest grant counts, so one place is enough: nothing a store sends makes it grow.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    newest: Mutex<Option<Push>>,
    arrived: Notify,
}

/// Something the store pushed to a waiter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Push {
    /// It holds the lock since the store processed attempt number `seq`.
    Granted { token: FencingToken, seq: u32 },
    /// It should ask again.
    Again,
}

impl Mailbox {
    pub(super) fn put(&self, push: Push) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let stale = match (*newest, push) {
            (Some(Push::Granted { token: had, .. }), Push::Granted { token, .. }) => token < had,
            (Some(Push::Granted { .. }), Push::Again) => true,
            _ => false,
        };
        if !stale {
            *newest = Some(push);
        }
        drop(newest);
        self.arrived.notify_one();
    }

    /// The push that is there.
    pub(super) fn take(&self) -> Option<Push> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.take()
    }

    /// Waits for the next push. Dropping the future loses none.
    pub(super) async fn next(&self) -> Push {
        loop {
            if let Some(push) = self.take() {
                return push;
            }
            self.arrived.notified().await;
        }
    }
}
