//! The store's side of one lock: who holds it, who waits, and what each operation does to both.
//!
//! This is the specification that every store is held to. The memory and the file store run it; the
//! scripts of the Redis store are compared against it operation by operation.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::time::Duration;

use crate::{
    Attempt, Counter, FencingToken, Instant, Mode, Owner, Released, Renewal, Renewed, Request,
    Status, Ttl,
};

/// One name in a store: plain data, to be loaded from rows and written back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Those that hold the name: one exclusively, or several of compatible modes. They share one
    /// fencing token.
    pub members: Vec<Member>,
    /// Those that wait, in the order of their tickets.
    pub queue: Vec<Waiter>,
}

/// One that holds the name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    pub owner: Owner,
    pub mode: Mode,
    pub token: FencingToken,
    pub granted: Instant,
    pub expires: Instant,
    /// Released, and its minimum hold still runs.
    pub kept: bool,
    /// The session the holder's life hangs on; none when the entry lives by its TTL alone.
    pub session: Option<Arc<str>>,
}

/// One that waits for the name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    pub owner: Owner,
    pub mode: Mode,
    pub ttl: Ttl,
    pub min_hold: Option<Duration>,
    pub ticket: u64,
    pub alive_until: Instant,
    pub seq: u32,
    pub session: Option<Arc<str>>,
}

/// What one operation finds around it in the store, and what it leaves to be told.
#[derive(Debug)]
#[allow(clippy::exhaustive_structs)] // a store fills in every field
pub struct Turn<'a> {
    /// The store's clock, read once for the operation.
    pub now: Instant,
    /// The store's wall clock in microseconds since 1970: it seeds fencing tokens.
    pub wall_micros: u64,
    /// The store's fencing counter.
    pub counter: &'a mut Counter,
    /// Who is still there.
    pub crowd: &'a mut dyn Crowd,
    /// Who is to be told what, once the operation is committed.
    pub notices: Vec<Notice>,
}

/// What a store knows of the processes behind its entries.
pub trait Crowd: core::fmt::Debug {
    /// Whether the session is known to be over.
    fn is_gone(&mut self, session: &str) -> bool;
    /// Whether a push to this waiter would find a receiver.
    fn can_hear(&mut self, waiter: &Waiter) -> bool;
}

/// Something to tell the client of `owner` once the operation is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notice {
    /// Whom it is about: its client is to be told.
    pub owner: Owner,
    /// The session of the one to be told, where there is one.
    pub session: Option<Arc<str>>,
    /// What to tell.
    pub news: News,
}

/// What a [`Notice`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)] // a store must pass on all of it
pub enum News {
    /// The waiter holds the lock; `seq` is the number of its last attempt.
    Granted {
        /// Its fencing token.
        token: FencingToken,
        /// The number of its last attempt that was processed.
        seq: u32,
    },
    /// The waiter should ask again at once.
    Again,
    /// The holder was put out by force.
    Revoked,
}

impl Entry {
    /// Takes the name for `request.owner`, queues it, or says who has it.
    pub fn acquire(
        &mut self,
        request: &Request,
        session: Option<Arc<str>>,
        turn: &mut Turn<'_>,
    ) -> Attempt {
        let _ = (request, session, turn);
        todo!()
    }

    /// Lengthens a lease; never creates or shortens one.
    pub fn renew(&mut self, renewal: &Renewal, turn: &mut Turn<'_>) -> Renewed {
        let _ = (renewal, turn);
        todo!()
    }

    /// As [`Entry::renew`], and unbinds the lease from its session.
    pub fn detach(&mut self, renewal: &Renewal, turn: &mut Turn<'_>) -> Renewed {
        let _ = (renewal, turn);
        todo!()
    }

    /// Gives up what `owner` has: the lock, a place in the queue, or both; then serves the queue.
    pub fn release(
        &mut self,
        owner: &Owner,
        min_hold: Option<Duration>,
        turn: &mut Turn<'_>,
    ) -> Released {
        let _ = (owner, min_hold, turn);
        todo!()
    }

    /// Ends the lease whose owner value is `observed`; then serves the queue.
    pub fn force(&mut self, observed: &str, turn: &mut Turn<'_>) -> bool {
        let _ = (observed, turn);
        todo!()
    }

    /// What inspection reports at `now`; changes nothing.
    pub fn status(&self, name: String, now: Instant, crowd: &mut dyn Crowd) -> Status {
        let _ = (name, now, crowd);
        todo!()
    }

    /// Whether nothing is left of the entry that a store must keep.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.queue.is_empty()
    }
}
