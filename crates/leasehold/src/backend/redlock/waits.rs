//! Who waits for what, and who is told when it may be free.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use leasehold_core::{ClientId, Instant, Name, Owner};
use tokio::sync::mpsc;

use crate::backend::{EVENT_BUFFER, Event, Events};

/// The clients of this process, and what they wait for.
#[derive(Debug, Default)]
pub(super) struct Waits {
    clients: Mutex<HashMap<ClientId, mpsc::Sender<Event>>>,
    waiting: Mutex<HashMap<Name, Vec<Waiter>>>,
    wake_ups: AtomicU64,
    last_ticket: AtomicU64,
}

/// An owner that asked and was not granted.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) owner: Owner,
    /// Since when its caller has been waiting, in microseconds of the wall clock; no other of this
    /// process has the same.
    pub(super) ticket: u64,
    /// When it has surely asked again.
    until: Instant,
    /// It is about to be told: the number of the wake-up.
    due: Option<u64>,
}

impl Waits {
    pub(super) fn attach(&self, client: &ClientId) -> Events {
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        let mut clients = lock(&self.clients);
        clients.retain(|_, sender| !sender.is_closed());
        clients.insert(client.clone(), sender);
        events
    }

    /// A ticket for one that comes at `now`, in microseconds of the wall clock, and no other's.
    pub(super) fn ticket(&self, now: u64) -> u64 {
        let next = |last: u64| Some(now.max(last + 1));
        let last = self
            .last_ticket
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        now.max(last.unwrap_or(now) + 1)
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
        // It asks under a new owner each time.
        waiters.retain(|waiter| waiter.until > now && waiter.ticket != ticket);
        waiters.push(Waiter {
            owner: owner.clone(),
            ticket,
            until,
            due: None,
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

    /// Those who wait for `name` and are to be told now, the longest waiting first, and the number
    /// of this wake-up. Who is about to be told already is left out: the same news comes from
    /// every node.
    pub(super) fn wake(&self, name: &Name) -> (u64, Vec<Waiter>) {
        let number = self.wake_ups.fetch_add(1, Ordering::Relaxed);
        let mut waiting = lock(&self.waiting);
        let waiters = waiting.get_mut(name).into_iter().flatten();
        let mut woken: Vec<Waiter> = waiters
            .filter(|waiter| waiter.due.is_none())
            .map(|waiter| {
                waiter.due = Some(number);
                waiter.clone()
            })
            .collect();
        woken.sort_unstable_by_key(|waiter| waiter.ticket);
        (number, woken)
    }

    /// Whether `owner` is still to be told by the wake-up of this number; it is not told again.
    pub(super) fn is_due(&self, name: &Name, owner: &Owner, number: u64) -> bool {
        let mut waiting = lock(&self.waiting);
        let Some(waiters) = waiting.get_mut(name) else {
            return false;
        };
        let is_it = |waiter: &Waiter| waiter.owner == *owner && waiter.due == Some(number);
        let found = waiters.iter().position(is_it);
        found.map(|at| waiters.swap_remove(at)).is_some()
    }

    /// One of those who wait has taken `name` for itself alone: the others wait for the next news.
    pub(super) fn calm(&self, name: &Name) {
        let mut waiting = lock(&self.waiting);
        for waiter in waiting.get_mut(name).into_iter().flatten() {
            waiter.due = None;
        }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_core::Label;

    use super::*;

    fn owner(number: u64) -> Owner {
        let client = ClientId::new(7);
        Owner::new(number.into(), &client, "host", 1, &Label::default())
    }

    fn waits(tickets: &[u64]) -> (Waits, Name) {
        let (waits, name) = (Waits::default(), Name::new("a").unwrap());
        for &ticket in tickets {
            let until = Instant::ORIGIN.after(Duration::from_secs(9));
            waits.add(&name, &owner(ticket), ticket, Instant::ORIGIN, until);
        }
        (waits, name)
    }

    #[test]
    fn the_same_news_from_every_node_wake_once_the_oldest_first() {
        let (waits, name) = waits(&[3, 1, 2]);
        let (number, woken) = waits.wake(&name);
        let tickets: Vec<u64> = woken.iter().map(|it| it.ticket).collect();
        assert_eq!(tickets, [1, 2, 3]);
        assert!(waits.wake(&name).1.is_empty());
        assert!(waits.is_due(&name, &owner(1), number));
        assert!(!waits.is_due(&name, &owner(1), number));
    }

    #[test]
    fn the_others_wait_for_the_next_news_when_one_has_taken_it() {
        let (waits, name) = waits(&[1, 2]);
        let (number, _) = waits.wake(&name);
        waits.calm(&name);
        assert!(!waits.is_due(&name, &owner(2), number));
        assert_eq!(waits.wake(&name).1.len(), 2);
    }

    #[test]
    fn whoever_asks_again_waits_once() {
        let (waits, name) = waits(&[5]);
        let until = Instant::ORIGIN.after(Duration::from_secs(9));
        waits.add(&name, &owner(8), 5, Instant::ORIGIN, until);
        assert_eq!(waits.wake(&name).1.len(), 1);
    }

    #[test]
    fn tickets_of_one_moment_differ() {
        let waits = Waits::default();
        assert_eq!(
            [waits.ticket(7), waits.ticket(7), waits.ticket(3)],
            [7, 8, 9]
        );
        assert_eq!(waits.ticket(20), 20);
    }
}
