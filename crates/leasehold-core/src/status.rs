//! What inspection reports about a name.

use alloc::{string::String, vec::Vec};
use core::time::Duration;

use crate::{FencingToken, Mode, Owner};

/// Who holds a name and who waits for it, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The name, as the store has it: untrusted text.
    pub name: String,
    /// Those that hold it; empty when it is free. Where several servers vote: those that a majority
    /// of them names, or may name together with servers whose word is missing.
    pub holders: Vec<Holder>,
    /// Those that wait, in the order of the queue.
    pub waiters: Vec<Waiting>,
    /// What each server says, where several vote; empty where one decides.
    pub nodes: Vec<NodeView>,
}

impl Status {
    /// The status of `name`.
    #[must_use]
    pub const fn new(name: String, holders: Vec<Holder>, waiters: Vec<Waiting>) -> Self {
        Self {
            name,
            holders,
            waiters,
            nodes: Vec::new(),
        }
    }

    /// The same with what each server that votes says.
    #[must_use]
    pub fn with_nodes(mut self, nodes: Vec<NodeView>) -> Self {
        self.nodes = nodes;
        self
    }

    /// Whether nobody holds the name.
    #[must_use]
    pub const fn is_free(&self) -> bool {
        self.holders.is_empty()
    }
}

/// One that holds a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// What kind of entry this is.
    pub kind: HolderKind,
    /// The owner as the store has it: untrusted text, and the value to name when forcing a release.
    pub value: String,
    /// How it is held.
    pub mode: Mode,
    /// Under which fencing token; foreign holders have one only where the store itself gives it.
    pub token: Option<FencingToken>,
    /// When the entry ends if nothing happens; `None` when it never does.
    pub remaining: Option<Duration>,
    /// For how long it has been held, where the store knows.
    pub held_for: Option<Duration>,
    /// What the holder published about itself, such as a leader's address: untrusted text.
    pub note: Option<String>,
}

impl Holder {
    /// A holder of this product.
    #[must_use]
    pub fn new(owner: &Owner, mode: Mode, token: FencingToken, remaining: Duration) -> Self {
        Self {
            kind: HolderKind::Held,
            value: owner.as_str().into(),
            mode,
            token: Some(token),
            remaining: Some(remaining),
            held_for: None,
            note: None,
        }
    }

    /// An entry that another program wrote.
    #[must_use]
    pub const fn foreign(kind: HolderKind, value: String, remaining: Option<Duration>) -> Self {
        Self {
            kind,
            value,
            mode: Mode::Exclusive,
            token: None,
            remaining,
            held_for: None,
            note: None,
        }
    }

    /// The owner, when the entry is one of this product.
    #[must_use]
    pub fn owner(&self) -> Option<Owner> {
        match self.kind {
            HolderKind::Held | HolderKind::Kept => Owner::parse(&self.value).ok(),
            HolderKind::Foreign | HolderKind::WrongType => None,
        }
    }
}

/// What kind of entry holds a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HolderKind {
    /// A lease of this product.
    Held,
    /// A lease that was released and whose minimum hold still runs.
    Kept,
    /// A value of another program that uses the same name as a lock.
    Foreign,
    /// Something that is no lock: a key of another type.
    WrongType,
}

/// What one of several servers that vote says of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeView {
    /// Where the server is, without credentials.
    pub address: String,
    /// Whom it has as holders; `None` if it did not say.
    pub holders: Option<Vec<Holder>>,
    /// Why it has no vote at present, if so: it does not answer, or may have forgotten leases.
    pub no_vote: Option<String>,
    /// For how long it has none, where that is known.
    pub no_vote_for: Option<Duration>,
}

impl NodeView {
    /// The view of the server at `address`, which has a vote if it said whom it has.
    #[must_use]
    pub const fn new(address: String, holders: Option<Vec<Holder>>) -> Self {
        Self {
            address,
            holders,
            no_vote: None,
            no_vote_for: None,
        }
    }

    /// The same of a server that has no vote for this reason, and for how long, if that is known.
    #[must_use]
    pub fn without_vote(mut self, reason: String, left: Option<Duration>) -> Self {
        self.no_vote = Some(reason);
        self.no_vote_for = left;
        self
    }

    /// Whether it names `owner` as a holder.
    #[must_use]
    pub fn names(&self, owner: &str) -> bool {
        let mut holders = self.holders.iter().flatten();
        holders.any(|holder| holder.value == owner)
    }

    /// Whether it may have `owner` as a holder without saying so.
    #[must_use]
    pub fn may_have(&self, owner: &str) -> bool {
        (self.holders.is_none() || self.no_vote.is_some()) && !self.names(owner)
    }
}

/// One that waits for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// The owner as the store has it: untrusted text.
    pub value: String,
    /// How it wants to hold.
    pub mode: Mode,
    /// The ticket that orders the queue.
    pub ticket: u64,
    /// How long it counts as alive when it is not heard from.
    pub alive_for: Duration,
}

impl Waiting {
    /// A waiter.
    #[must_use]
    pub fn new(owner: &Owner, mode: Mode, ticket: u64, alive_for: Duration) -> Self {
        Self {
            value: owner.as_str().into(),
            mode,
            ticket,
            alive_for,
        }
    }

    /// One that waits by another program's doing; how long it is alive, nobody says.
    #[must_use]
    pub const fn foreign(value: String, mode: Mode, ticket: u64) -> Self {
        Self {
            value,
            mode,
            ticket,
            alive_for: Duration::ZERO,
        }
    }
}
