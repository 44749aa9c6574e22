//! What an operation finds around it in the store, and what it leaves to be told.

use alloc::{sync::Arc, vec::Vec};

use super::Waiter;
use crate::{Counter, FencingToken, Instant, Owner};

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

impl Turn<'_> {
    pub(super) fn tell(&mut self, owner: &Owner, session: Option<&Arc<str>>, news: News) {
        self.notices.push(Notice {
            owner: owner.clone(),
            session: session.cloned(),
            news,
        });
    }
}

/// What a store knows of the processes behind its entries.
///
/// Asked once per entry, so a store for which an answer costs something remembers it for the
/// operation. The session of the caller is never gone.
pub trait Crowd: core::fmt::Debug {
    /// Whether the session is known to be over.
    fn is_gone(&mut self, session: &str) -> bool;
    /// Whether a push to this waiter would find a receiver. One that cannot hear is not handed the
    /// lock: it is reserved for it instead, as long as it asks again within its patience.
    fn can_hear(&mut self, waiter: &Waiter) -> bool;
    /// Whether the store tells a waiter to ask again when a session it waits behind is over. Where
    /// it does not, waiters ask by themselves, ten times a second.
    fn tells_deaths(&self) -> bool {
        false
    }
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
