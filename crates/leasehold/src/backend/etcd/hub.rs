//! What all operations of one handle share.

use std::{
    collections::HashMap,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use leasehold_core::{ClientId, FencingToken, Instant, Name, Owner, Ttl};
use tokio::sync::mpsc;

use super::{
    failure,
    own::{Own, Place, Slot, Stage, Turn},
    proto::TxnRequest,
    sessions::{Lease, Sessions},
    store::{Store, delete},
    watch::Command,
};
use crate::{
    backend::{EVENT_BUFFER, Event, Events, Failure},
    clock::Clock,
};

/// How long one holds before its key is watched: most have released by then.
const SETTLED: Duration = Duration::from_millis(250);

/// What all operations of one handle share.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) store: Store,
    pub(super) sessions: Sessions,
    pub(super) own: Own,
    pub(super) clock: Clock,
    listeners: Mutex<HashMap<ClientId, mpsc::Sender<Event>>>,
    watcher: mpsc::UnboundedSender<Command>,
    last_watch: AtomicI64,
}

impl Hub {
    pub(super) fn new(store: Store, watcher: mpsc::UnboundedSender<Command>) -> Self {
        Self {
            store,
            sessions: Sessions::default(),
            own: Own::default(),
            clock: Clock::system(),
            listeners: Mutex::default(),
            watcher,
            last_watch: AtomicI64::new(0),
        }
    }

    pub(super) fn attach(&self, client: &ClientId) -> Events {
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|_, sender| !sender.is_closed());
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        listeners.insert(client.clone(), sender);
        events
    }

    /// Tells the client of `owner`. Events are hints: what does not fit is found out by asking.
    pub(super) fn tell(&self, owner: &Owner, event: Event) {
        let listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = listeners.get(&owner.client()) {
            let _ = sender.try_send(event);
        }
    }

    pub(super) fn tell_all(&self, event: &Event) {
        let listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for sender in listeners.values() {
            let _ = sender.try_send(event.clone());
        }
    }

    pub(super) async fn turn(&self, name: &Name, owner: &Owner) -> Turn {
        let key = self.store.prefix.entry(name, owner);
        self.own.turn(name, owner, key).await
    }

    pub(super) fn slot(&self, name: &Name, owner: &Owner) -> Option<Arc<Slot>> {
        self.own.find(&self.store.prefix.entry(name, owner))
    }

    pub(super) async fn lease(&self, ttl: Ttl) -> Result<Arc<Lease>, Failure> {
        self.sessions.lease(&self.store, &self.clock, ttl).await
    }

    /// Sees that the store keeps `lease` for `ttl` from `since` on; `false` when it is over.
    pub(super) async fn keep(
        &self,
        lease: &Lease,
        since: Instant,
        ttl: Ttl,
    ) -> Result<bool, Failure> {
        super::sessions::keep(&self.store, &self.clock, lease, since, ttl).await
    }

    /// Takes the slot out of use.
    pub(super) fn close(&self, slot: &Arc<Slot>) {
        for id in self.own.close(slot) {
            self.unwatch(id);
        }
    }

    /// Notes that the slot's owner holds as `place` says, with `ttl` from now on.
    pub(super) fn held(&self, slot: &Arc<Slot>, place: Place, ttl: Ttl) {
        let now = self.clock.now();
        let mut state = slot.state();
        let next = if let Stage::Held(_) = state.stage {
            None
        } else {
            state.stage = Stage::Held(now);
            state.until = None;
            Some(now.after(SETTLED))
        };
        let until = now.after(ttl.get());
        state.until = Some(state.until.map_or(until, |old| old.max(until)));
        state.place = Some(place);
        let watches = std::mem::take(&mut state.watches);
        drop(state);
        for (_, id) in watches {
            self.unwatch(id);
        }
        if let Some(next) = next {
            self.own.look_at(slot, next.min(until));
        }
    }

    /// Watches `key` for the slot, from `revision` on.
    pub(super) fn watch(&self, slot: &Arc<Slot>, key: &[u8], revision: i64, puts: bool) -> i64 {
        let id = self.last_watch.fetch_add(1, Ordering::Relaxed) + 1;
        let _ = self.watcher.send(Command::Watch {
            id,
            key: key.to_vec(),
            revision,
            puts,
            slot: Arc::downgrade(slot),
        });
        id
    }

    pub(super) fn unwatch(&self, id: i64) {
        let _ = self.watcher.send(Command::Unwatch(id));
    }

    /// Removes a key that nobody needs any more, after `span`.
    pub(super) fn remove_later(self: &Arc<Self>, key: Vec<u8>, span: Duration) {
        let (hub, clock) = (Arc::downgrade(self), self.clock.clone());
        let when = clock.now().after(span);
        tokio::spawn(async move {
            clock.sleep_until(when).await;
            if let Some(hub) = hub.upgrade() {
                let txn = TxnRequest {
                    success: vec![delete(&key)],
                    ..TxnRequest::default()
                };
                // Else it goes with its lease.
                let _ = hub.store.txn(&txn).await;
            }
        });
    }

    pub(super) fn granted(slot: &Slot, token: FencingToken, seq: u32) -> Event {
        Event::Granted {
            name: slot.name.clone(),
            owner: slot.owner.clone(),
            token,
            seq,
        }
    }
}

/// Runs `work` to its end, also when whoever waits for it no longer does.
pub(super) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::spawn(work).await {
        Ok(answer) => answer,
        Err(_) => Err(failure::no_answer()),
    }
}
