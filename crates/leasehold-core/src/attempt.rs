//! What a client asks of a store and what the store answers, one attempt at a time.

use core::time::Duration;

use crate::{FencingToken, Holder, Mode, Name, Owner, Ttl};

/// One attempt to take a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The resource.
    pub name: Name,
    /// Who asks; new for every acquisition.
    pub owner: Owner,
    /// How the lock is to be held.
    pub mode: Mode,
    /// The TTL asked for; a store may round it up and says so in the [`Grant`].
    pub ttl: Ttl,
    /// How long the name stays taken at least, counted from the grant.
    pub min_hold: Option<Duration>,
    /// Whether to wait in the queue when the lock is not to be had now.
    pub wait: Option<Wait>,
}

impl Request {
    /// A try: the lock now or not at all.
    #[must_use]
    pub const fn new(name: Name, owner: Owner, mode: Mode, ttl: Ttl) -> Self {
        Self {
            name,
            owner,
            mode,
            ttl,
            min_hold: None,
            wait: None,
        }
    }
}

/// What a waiter says of itself with every attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// Number of this attempt within the acquisition, from 0. A push repeats the number of the
    /// last attempt the store processed, so that the client knows from when to count.
    pub seq: u32,
    /// The ticket an earlier attempt was given, to take up the old place if the queue was lost.
    pub ticket: Option<u64>,
    /// How long the waiter counts as alive when it is not heard from.
    pub patience: Duration,
}

impl Wait {
    /// A waiter's attempt number `seq`.
    #[must_use]
    pub const fn new(seq: u32, ticket: Option<u64>, patience: Duration) -> Self {
        Self {
            seq,
            ticket,
            patience,
        }
    }
}

/// The answer to a [`Request`]. That another holds the lock is an answer, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)] // a driver that ignores an answer would be wrong
pub enum Attempt {
    /// The caller holds the lock, now or already: the lease has at least a full TTL left, counted
    /// from the moment this attempt was sent.
    Granted(Grant),
    /// The caller waits in the queue.
    Queued(Queued),
    /// Another holds the lock, and the caller is not in the queue: it only tried, or the queue
    /// could not take it (then a waiter asks again after [`Held::change_in`]).
    Held(Held),
    /// The name is held in permits of another limit. A try is told so; a waiter waits.
    Conflict {
        /// The limit in force.
        limit: u32,
    },
    /// This owner released the lock earlier and its minimum hold still runs; the owner is used up.
    Ended,
}

/// A lock given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// Greater than that of every earlier grant of this name; readers of one phase share theirs.
    pub token: FencingToken,
    /// The TTL in effect, at least the one asked for.
    pub ttl: Ttl,
}

impl Grant {
    /// A grant under `token` for `ttl`.
    #[must_use]
    pub const fn new(token: FencingToken, ttl: Ttl) -> Self {
        Self { token, ttl }
    }
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queued {
    /// How many wait in front; zero for the first.
    pub place: u32,
    /// The ticket that orders the queue: smaller is earlier.
    pub ticket: u64,
    /// When something can change without a push; zero to ask again at once.
    pub change_in: Duration,
    /// One of those that hold the lock, for people.
    pub holder: Option<Holder>,
}

impl Queued {
    /// A place in the queue.
    #[must_use]
    pub const fn new(place: u32, ticket: u64, change_in: Duration, holder: Option<Holder>) -> Self {
        Self {
            place,
            ticket,
            change_in,
            holder,
        }
    }
}

/// A lock that another holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// When something can change.
    pub change_in: Duration,
    /// One of those that hold the lock, for people.
    pub holder: Option<Holder>,
}

impl Held {
    /// A lock held by `holder`, for `change_in` as far as the store knows.
    #[must_use]
    pub const fn new(change_in: Duration, holder: Option<Holder>) -> Self {
        Self { change_in, holder }
    }
}

/// One lease to renew, detach or confirm. Stores compare the owner **and** the fencing token: the
/// same owner granted again under another token is not this lease.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Renewal {
    /// The resource.
    pub name: Name,
    /// Whose lease.
    pub owner: Owner,
    /// How it is held.
    pub mode: Mode,
    /// Under which fencing token.
    pub token: FencingToken,
    /// How long it is to live from now; a lease is only ever lengthened.
    pub ttl: Ttl,
}

impl Renewal {
    /// A renewal of the lease of `owner` under `token`.
    #[must_use]
    pub const fn new(name: Name, owner: Owner, mode: Mode, token: FencingToken, ttl: Ttl) -> Self {
        Self {
            name,
            owner,
            mode,
            token,
            ttl,
        }
    }
}

/// The answer to one [`Renewal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums)] // a driver that ignores an answer would be wrong
pub enum Renewed {
    /// The lease has at least this TTL left, counted from the moment the renewal was sent.
    Renewed(Ttl),
    /// Another holds the lock, or the same owner under another fencing token, or its minimum hold
    /// runs after a release.
    NotOurs,
    /// Nobody holds the lock.
    Missing,
}

/// The answer to a release or a withdrawal. All three leave the owner neither holding nor waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)] // a driver that ignores an answer would be wrong
pub enum Released {
    /// The owner held the lock and no longer does.
    Released,
    /// The owner held the lock; the name stays taken for the rest of its minimum hold.
    Kept,
    /// The owner did not hold the lock. If it waited, it no longer does.
    NotOurs,
}
