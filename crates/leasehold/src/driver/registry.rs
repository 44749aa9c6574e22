//! Whom an event of the store is about: waiters and holders of this client, by owner.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use leasehold_core::{FencingToken, Owner};
use tokio::sync::Notify;

use super::held::Held;

/// The acquisitions that wait and the leases that are held.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<HashMap<Owner, Route>>);

#[derive(Debug)]
enum Route {
    Waits(Arc<Mailbox>),
    Holds(Weak<Held>),
}

/// Who was found for an owner.
pub(super) enum Found {
    Waiter(Arc<Mailbox>),
    Holder(Arc<Held>),
    Nobody,
}

impl Registry {
    /// Opens a mailbox for an acquisition; before its first attempt is sent, for the push can
    /// overtake the answer.
    pub(super) fn wait(&self, owner: &Owner) -> Arc<Mailbox> {
        let mailbox = Arc::new(Mailbox::default());
        self.routes()
            .insert(owner.clone(), Route::Waits(Arc::clone(&mailbox)));
        mailbox
    }

    pub(super) fn hold(&self, held: &Arc<Held>) {
        self.routes()
            .insert(held.owner.clone(), Route::Holds(Arc::downgrade(held)));
    }

    pub(super) fn remove(&self, owner: &Owner) {
        self.routes().remove(owner);
    }

    pub(super) fn find(&self, owner: &Owner) -> Found {
        match self.routes().get(owner) {
            Some(Route::Waits(mailbox)) => Found::Waiter(Arc::clone(mailbox)),
            Some(Route::Holds(held)) => held.upgrade().map_or(Found::Nobody, Found::Holder),
            None => Found::Nobody,
        }
    }

    pub(super) fn held(&self) -> Vec<Arc<Held>> {
        let held = |route: &Route| match route {
            Route::Holds(held) => held.upgrade(),
            Route::Waits(_) => None,
        };
        self.routes().values().filter_map(held).collect()
    }

    /// Makes every waiter ask again.
    pub(super) fn wake_all(&self) {
        for route in self.routes().values() {
            if let Route::Waits(mailbox) = route {
                mailbox.put(Push::Again);
            }
        }
    }

    fn routes(&self) -> MutexGuard<'_, HashMap<Owner, Route>> {
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

    /// Waits for the next push. Dropping the future loses none.
    pub(super) async fn next(&self) -> Push {
        loop {
            let push = self
                .newest
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(push) = push {
                return push;
            }
            self.arrived.notified().await;
        }
    }
}
