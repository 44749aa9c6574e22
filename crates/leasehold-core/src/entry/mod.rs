//! The store's side of one lock: who holds it, who waits, and what each operation does to both.
//!
//! This is the specification that every store is held to. The memory and the file store run it; the
//! scripts of the Redis store are compared against it operation by operation.
//!
//! Every operation begins by removing what has ended and ends by serving the queue, so that no
//! order of operations leaves a free lock and a waiter that nobody wakes.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::time::Duration;

use crate::{
    Attempt, Grant, Held, Instant, Mode, Owner, Queued, Released, Renewal, Renewed, Request,
    Status, Waiting,
};

mod change;
mod member;
mod queue;
mod settle;
mod turn;

#[cfg(test)]
mod tests;

use change::RECHECK;
use member::{Life, end_of_hold, first_ttl};
use settle::{End, Terms};

pub use member::Member;
pub use queue::Waiter;
pub use turn::{Crowd, News, Notice, Turn};

/// How many can wait for one name; more are told to ask again later.
pub const QUEUE_LIMIT: usize = 100_000;

/// One name in a store: plain data, to be loaded from rows and written back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs)] // a store writes both as rows
pub struct Entry {
    /// Those that hold the name: one exclusively, or several of compatible modes. They share one
    /// fencing token.
    pub members: Vec<Member>,
    /// Those that wait, in the order of their tickets.
    pub queue: Vec<Waiter>,
}

impl Entry {
    /// Takes the name for `request.owner`, queues it, or says who has it.
    pub fn acquire(
        &mut self,
        request: &Request,
        session: Option<Arc<str>>,
        turn: &mut Turn<'_>,
    ) -> Attempt {
        let expected = self.begin(turn);
        let owner = &request.owner;
        if let Some(at) = self.member_of(owner) {
            return self.acquire_again(at, request, expected, turn);
        }
        if let Some(at) = self.place_of(owner)
            && self.queue[at].mode != request.mode
        {
            let limit = self.queue[at].mode.limit();
            self.settle(expected, None, turn);
            return Attempt::Conflict { limit };
        }
        let joined = request
            .wait
            .is_some_and(|wait| self.enqueue(request, wait, session.clone(), turn.now));
        let mut end = self.settle(expected, Some(owner), turn);
        if joined && self.queue.len() > QUEUE_LIMIT {
            self.queue.retain(|waiter| waiter.owner != *owner);
            end = self.settle(expected, None, turn);
        }
        if let Some(at) = self.member_of(owner) {
            return Attempt::Granted(self.granted(at, request));
        }
        match self.place_of(owner).filter(|_| request.wait.is_some()) {
            Some(place) => self.wait_at(place, end, turn),
            None => self.try_now(request, session, end, turn),
        }
    }

    /// Lengthens a lease; never creates or shortens one.
    pub fn renew(&mut self, renewal: &Renewal, turn: &mut Turn<'_>) -> Renewed {
        self.change_lease(renewal, turn, |_| {})
    }

    /// As [`Entry::renew`], and unbinds the lease from its session.
    pub fn detach(&mut self, renewal: &Renewal, turn: &mut Turn<'_>) -> Renewed {
        self.change_lease(renewal, turn, |member| member.session = None)
    }

    /// Turns an exclusive lease into a reader's under the same fencing token, set to a full TTL,
    /// and lets in the readers that wait in front.
    pub fn downgrade(&mut self, renewal: &Renewal, turn: &mut Turn<'_>) -> Renewed {
        self.change_lease(renewal, turn, |member| {
            if member.mode == Mode::Exclusive {
                member.mode = Mode::Read;
            }
        })
    }

    /// Publishes `note` for those who inspect the name, or takes it back; as a renewal else.
    pub fn annotate(
        &mut self,
        renewal: &Renewal,
        note: Option<&str>,
        turn: &mut Turn<'_>,
    ) -> Renewed {
        self.change_lease(renewal, turn, |member| member.note = note.map(String::from))
    }

    /// Gives up what `owner` has: the lock, a place in the queue, or both; then serves the queue.
    pub fn release(
        &mut self,
        owner: &Owner,
        min_hold: Option<Duration>,
        turn: &mut Turn<'_>,
    ) -> Released {
        let expected = self.begin(turn);
        let found = self.member_of(owner).filter(|&at| !self.members[at].kept);
        let answer = match found {
            None => Released::NotOurs,
            Some(at) => {
                let member = &mut self.members[at];
                // Never longer than the minimum from now, should the clock have gone back.
                let until =
                    end_of_hold(member.granted, min_hold).min(end_of_hold(turn.now, min_hold));
                if until > turn.now {
                    member.keep(until);
                    Released::Kept
                } else {
                    self.members.remove(at);
                    Released::Released
                }
            }
        };
        self.queue.retain(|waiter| waiter.owner != *owner);
        self.settle(expected, None, turn);
        answer
    }

    /// Ends the lease whose owner value is `observed`; then serves the queue.
    pub fn force(&mut self, observed: &str, turn: &mut Turn<'_>) -> bool {
        let expected = self.begin(turn);
        let victim = self
            .members
            .iter()
            .position(|member| member.owner.as_str() == observed)
            .map(|at| self.members.remove(at));
        if let Some(member) = victim.as_ref().filter(|member| !member.kept) {
            turn.tell(&member.owner, member.session.as_ref(), News::Revoked);
        }
        self.settle(expected, None, turn);
        victim.is_some()
    }

    /// What inspection reports at `now`; changes nothing.
    pub fn status(&self, name: String, now: Instant, crowd: &mut dyn Crowd) -> Status {
        let mut holders = Vec::new();
        for member in &self.members {
            match member.life(now, crowd) {
                Life::On => holders.push(member.describe(now)),
                Life::Abandoned => {
                    let mut kept = member.clone();
                    kept.keep(member.hold_until);
                    holders.push(kept.describe(now));
                }
                Life::Over => {}
            }
        }
        let alive = self.queue.iter().filter(|it| !it.is_dead(now, crowd));
        let waiters = alive
            .map(|it| Waiting::new(&it.owner, it.mode, it.ticket, it.alive_until - now))
            .collect();
        Status::new(name, holders, waiters)
    }

    /// Whether nothing is left of the entry that a store must keep.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.queue.is_empty()
    }

    fn change_lease(
        &mut self,
        renewal: &Renewal,
        turn: &mut Turn<'_>,
        change: impl FnOnce(&mut Member),
    ) -> Renewed {
        let expected = self.begin(turn);
        let ours =
            |it: &&mut Member| it.owner == renewal.owner && it.token == renewal.token && !it.kept;
        let answer = if let Some(member) = self.members.iter_mut().find(ours) {
            member.lengthen(turn.now, renewal.ttl);
            change(member);
            Renewed::Renewed(renewal.ttl)
        } else if self.members.is_empty() {
            Renewed::Missing
        } else {
            Renewed::NotOurs
        };
        self.settle(expected, None, turn);
        answer
    }

    fn member_of(&self, owner: &Owner) -> Option<usize> {
        self.members.iter().position(|it| it.owner == *owner)
    }

    fn granted(&self, at: usize, request: &Request) -> Grant {
        let ttl = first_ttl(request.ttl, request.min_hold);
        Grant::new(self.members[at].token, ttl)
    }

    /// An attempt of one that holds already, most often the repetition of one whose answer was
    /// lost.
    fn acquire_again(
        &mut self,
        at: usize,
        request: &Request,
        expected: Instant,
        turn: &mut Turn<'_>,
    ) -> Attempt {
        let member = &mut self.members[at];
        let answer = if member.kept {
            Attempt::Ended
        } else if member.mode != request.mode {
            let limit = member.mode.limit();
            Attempt::Conflict { limit }
        } else {
            // A full TTL from now, so that the caller may count from when it sent this attempt.
            member.lengthen(turn.now, first_ttl(request.ttl, request.min_hold));
            Attempt::Granted(self.granted(at, request))
        };
        self.queue.retain(|waiter| waiter.owner != request.owner);
        self.settle(expected, None, turn);
        answer
    }

    /// The answer to one that is in the queue.
    fn wait_at(&self, place: usize, end: End, turn: &mut Turn<'_>) -> Attempt {
        let waiter = &self.queue[place];
        let mut change_in = self.change_in(&waiter.owner, waiter.mode, end, turn);
        if !turn.crowd.can_hear(waiter) {
            change_in = change_in.min(RECHECK);
        }
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        let holder = self.members.first().map(|member| member.describe(turn.now));
        Attempt::Queued(Queued::new(place, waiter.ticket, change_in, holder))
    }

    /// The answer to one that does not wait: the lock if nobody is in front, else who has it.
    fn try_now(
        &mut self,
        request: &Request,
        session: Option<Arc<str>>,
        end: End,
        turn: &mut Turn<'_>,
    ) -> Attempt {
        let Request { owner, mode, .. } = request;
        if self.queue.is_empty() && self.fits(*mode) {
            let terms = Terms {
                owner,
                mode: *mode,
                ttl: request.ttl,
                min_hold: request.min_hold,
                session,
            };
            self.grant(terms, turn);
            return Attempt::Granted(self.granted(self.members.len() - 1, request));
        }
        let apart = |phase: &Mode| phase.is_shared() && !mode.joins(*phase);
        if let Some(phase) = self.phase().filter(apart)
            && mode.is_shared()
            && request.wait.is_none()
        {
            let limit = phase.limit();
            return Attempt::Conflict { limit };
        }
        let change_in = self.change_in(owner, *mode, end, turn);
        let holder = self.members.first().map(|member| member.describe(turn.now));
        Attempt::Held(Held::new(change_in, holder))
    }
}
