//! Those that wait for a name, in the order of their tickets.

use alloc::sync::Arc;
use core::time::Duration;

use super::{Crowd, Entry};
use crate::{Instant, Mode, Owner, Request, Ttl, Wait};

/// One that waits for the name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// Who waits.
    pub owner: Owner,
    /// How it wants to hold.
    pub mode: Mode,
    /// The TTL it asked for.
    pub ttl: Ttl,
    /// The minimum hold it asked for.
    pub min_hold: Option<Duration>,
    /// What orders the queue: unique in it, smaller is earlier.
    pub ticket: u64,
    /// From this instant on it counts as dead unless it is heard from before.
    pub alive_until: Instant,
    /// The number of its last attempt that was processed.
    pub seq: u32,
    /// The session its life hangs on, where there is one.
    pub session: Option<Arc<str>>,
}

impl Waiter {
    /// A waiter at its first attempt, without a minimum hold, bound to no session.
    #[must_use]
    pub const fn new(
        owner: Owner,
        mode: Mode,
        ttl: Ttl,
        ticket: u64,
        alive_until: Instant,
    ) -> Self {
        Self {
            owner,
            mode,
            ttl,
            min_hold: None,
            ticket,
            alive_until,
            seq: 0,
            session: None,
        }
    }

    pub(super) fn is_dead(&self, now: Instant, crowd: &mut dyn Crowd) -> bool {
        now >= self.alive_until || self.session.as_deref().is_some_and(|it| crowd.is_gone(it))
    }

    fn refresh(&mut self, request: &Request, wait: Wait, session: Option<Arc<str>>, now: Instant) {
        self.ttl = request.ttl;
        self.min_hold = request.min_hold;
        self.alive_until = now.after(wait.patience);
        self.seq = wait.seq;
        self.session = session;
    }
}

impl Entry {
    pub(super) fn place_of(&self, owner: &Owner) -> Option<usize> {
        self.queue.iter().position(|waiter| waiter.owner == *owner)
    }

    /// Puts the caller into the queue, or notes that it is still there; says whether it is new.
    pub(super) fn enqueue(
        &mut self,
        request: &Request,
        wait: Wait,
        session: Option<Arc<str>>,
        now: Instant,
    ) -> bool {
        let known = self.place_of(&request.owner);
        let at = known.unwrap_or_else(|| {
            let (at, ticket) = self.seat(wait.ticket, now);
            let owner = request.owner.clone();
            let waiter = Waiter::new(owner, request.mode, request.ttl, ticket, now);
            self.queue.insert(at, waiter);
            at
        });
        self.queue[at].refresh(request, wait, session, now);
        known.is_none()
    }

    /// Where one that holds ticket `old` belongs, and the ticket it gets.
    ///
    /// A new ticket is above all others whatever the clock says. An old one is honoured, except
    /// that it cannot be from the future: then it is of a clock that was set anew since.
    fn seat(&self, old: Option<u64>, now: Instant) -> (usize, u64) {
        let next = self
            .queue
            .last()
            .map_or(0, |last| last.ticket.saturating_add(1));
        let fresh = next.max(now.as_nanos() / 1000);
        let mut ticket = old.map_or(fresh, |old| old.min(fresh));
        let mut at = self.queue.partition_point(|other| other.ticket < ticket);
        while self.queue.get(at).is_some_and(|it| it.ticket == ticket) {
            ticket = ticket.saturating_add(1);
            at += 1;
        }
        (at, ticket)
    }
}
