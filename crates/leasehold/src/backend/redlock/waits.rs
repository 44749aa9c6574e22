//! Who waits for what, and who is told when it may be free.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use leasehold_core::{ClientId, Instant, Name, Owner};
use tokio::sync::mpsc;

use crate::backend::{EVENT_BUFFER, Event, Events};

/// The clients of this process, and what they wait for.
#[derive(Debug, Default)]
pub(super) struct Waits {
    clients: Mutex<HashMap<ClientId, mpsc::Sender<Event>>>,
    waiting: Mutex<HashMap<Name, Vec<Waiter>>>,
}

/// An owner that asked and was not granted.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) owner: Owner,
    /// Since when its caller has been waiting, in microseconds of the wall clock.
    pub(super) ticket: u64,
    /// When it has surely asked again.
    until: Instant,
}

impl Waits {
    pub(super) fn attach(&self, client: &ClientId) -> Events {
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        let mut clients = lock(&self.clients);
        clients.retain(|_, sender| !sender.is_closed());
        clients.insert(client.clone(), sender);
        events
    }

    /// Notes that `owner` wants to hear of `name`, until it has surely asked again.
    pub(super) fn add(
        &self,
        name: &Name,
        owner: &Owner,
        ticket: u64,
        now: Instant,
        until: Instant,
    ) {
        let mut waiting = lock(&self.waiting);
        let waiters = waiting.entry(name.clone()).or_default();
        waiters.retain(|waiter| waiter.until > now);
        waiters.push(Waiter {
            owner: owner.clone(),
            ticket,
            until,
        });
    }

    pub(super) fn remove(&self, name: &Name, owner: &Owner) {
        let mut waiting = lock(&self.waiting);
        if let Some(waiters) = waiting.get_mut(name) {
            waiters.retain(|waiter| waiter.owner != *owner);
            if waiters.is_empty() {
                waiting.remove(name);
            }
        }
    }

    /// Those who wait for `name`, who are told once: the same news comes from every node.
    pub(super) fn take(&self, name: &Name) -> Vec<Waiter> {
        lock(&self.waiting).remove(name).unwrap_or_default()
    }

    /// Forgets who has long asked again.
    pub(super) fn sweep(&self, now: Instant) {
        lock(&self.waiting).retain(|_, waiters| {
            waiters.retain(|waiter| waiter.until > now);
            !waiters.is_empty()
        });
    }

    /// Tells the client of `owner`; one that does not read loses events, and re-checks anyway.
    pub(super) fn tell(&self, owner: &Owner, event: Event) {
        if let Some(sender) = lock(&self.clients).get(&owner.client()) {
            let _ = sender.try_send(event);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
