//! One of several independent servers that carry a lock together.
//!
//! A [`Node`] mends its connection by itself. Each connection is a [`Session`]: a server that
//! restarts ends it, so what was learned about the server holds for as long as the session does.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

pub use leasehold_core::quorum::trust::Facts;
use leasehold_core::{
    FencingToken, Held, Instant, Name, Owner, Released, Renewal, Renewed, Request, Status,
};
use tokio::sync::mpsc;

use super::{Failure, Page};

/// What a method of this interface gives.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A server that has a vote.
pub trait Node: fmt::Debug + Send + Sync + 'static {
    /// Where it is, without credentials.
    fn address(&self) -> String;

    /// What it tells without being asked. Called once.
    fn news(&self) -> mpsc::Receiver<News>;

    /// The session there is; while there is none, this waits for one more attempt to have one and
    /// then says why it failed.
    fn session(&self) -> Reply<'_, Result<Arc<dyn Session>, Failure>>;
}

/// One connection to a server. Requests of one session are carried out in the order in which they
/// were sent, and none after the next session has begun.
pub trait Session: fmt::Debug + Send + Sync + 'static {
    /// What the server told when the session began.
    fn facts(&self) -> &Facts;

    /// When it told.
    fn since(&self) -> Instant;

    /// Sees to it that releases of `name` are told, from when this is answered.
    fn listen<'a>(&'a self, name: &'a Name) -> Reply<'a, Result<(), Failure>>;

    /// Gives locks to owners that have not asked here before, all or none, or says who has the
    /// first that is not to be had.
    fn vote<'a>(&'a self, bids: &'a [Bid]) -> Reply<'a, Result<Vote, Failure>>;

    /// Raises the counter to the renewal's fencing token; `false` if its owner does not hold.
    fn raise<'a>(&'a self, claim: &'a Renewal) -> Reply<'a, Result<bool, Failure>>;

    /// Lengthens leases; one answer for each. One with other slots is not the same lease; an
    /// exclusive one that is claimed as a reader's becomes that, under the claim's fencing token.
    fn extend<'a>(&'a self, claims: &'a [Claim]) -> Reply<'a, Vec<Result<Renewed, Failure>>>;

    /// Gives a lease again to an owner that a majority says has it; `false` if another holds.
    fn replant<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Result<bool, Failure>>;

    /// Which slots the owner has here, if it holds together with others.
    fn slots<'a>(
        &'a self,
        name: &'a Name,
        owner: &'a Owner,
    ) -> Reply<'a, Result<Option<Slots>, Failure>>;

    /// Takes the lock from its owner.
    fn give_up<'a>(
        &'a self,
        name: &'a Name,
        owner: &'a Owner,
        how: Leave,
    ) -> Reply<'a, Result<Released, Failure>>;

    /// Tells those that listen that `name` may be had.
    fn tell<'a>(&'a self, name: &'a Name) -> Reply<'a, Result<(), Failure>>;

    /// Publishes `note` about a holder, or takes it back, and lengthens the lease.
    fn annotate<'a>(
        &'a self,
        claim: &'a Claim,
        note: Option<&'a str>,
    ) -> Reply<'a, Result<Renewed, Failure>>;

    /// Who holds `name` here.
    fn inspect<'a>(&'a self, name: &'a Name) -> Reply<'a, Result<Status, Failure>>;

    /// The names that begin with `prefix` and are held here, in pages, in order.
    fn list<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> Reply<'a, Result<Page, Failure>>;

    /// Ends the lease whose owner value is `observed`, and tells those that listen.
    fn force<'a>(&'a self, name: &'a Name, observed: &'a str) -> Reply<'a, Result<bool, Failure>>;

    /// Notes among which nodes this client votes, for as long as `grace` beyond the longest lease;
    /// or only looks which lists are noted here.
    fn meet<'a>(
        &'a self,
        grace: Duration,
        list: Option<&'a str>,
    ) -> Reply<'a, Result<Met, Failure>>;

    /// A sign of life.
    fn ping(&self) -> Reply<'_, Result<(), Failure>>;
}

/// What is asked of a node for one lock.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs)] // a node that ignored a part would be wrong
pub struct Bid {
    /// The lock, who asks, and how.
    pub request: Request,
    /// Of permits: the slot from which on free ones are looked for, the same at all nodes.
    pub start: u32,
}

/// A node's vote about all that it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)] // an attempt that ignored one would be wrong
pub enum Vote {
    /// All of it is given, in the order in which it was asked for.
    Granted(Vec<Given>),
    /// Nothing is given: this lock is not to be had.
    Held(Held),
}

/// What a node gives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs)] // whoever asks a node fills in every field
pub struct Given {
    /// The node's own fencing token.
    pub token: FencingToken,
    /// Of permits: which.
    pub slots: Slots,
}

/// What a node says about the clients that vote among it and others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs)] // whoever asks a node fills in every field
pub struct Met {
    /// How far the node's clock is ahead of this machine's now, in microseconds.
    pub offset_micros: i64,
    /// The lists that are noted.
    pub seen: Vec<Seen>,
}

/// A list of nodes that some client has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs)] // whoever asks a node fills in every field
pub struct Seen {
    /// The list as its clients wrote it.
    pub list: String,
    /// How long ago it was noted first.
    pub first: Duration,
    /// How long ago it was noted last.
    pub last: Duration,
}

/// How a lease ends.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs)] // a node that ignored a part would be wrong
pub struct Leave {
    /// Whether those that listen are told.
    pub tell: bool,
    /// The minimum hold, if any: for what is left of it the name stays taken.
    pub min_hold: Option<Duration>,
    /// For how long it was held, by the holder's clock, if that is known.
    pub held_for: Option<Duration>,
}

/// A lease as all nodes that count towards it have it.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs)] // a node that ignored a part would be wrong
pub struct Claim {
    /// Whose, of what, and how.
    pub renewal: Renewal,
    /// Of permits: which.
    pub slots: Slots,
}

/// Permits of a semaphore by number, from 0 on: each is a lock of its own to the nodes, and to have
/// it is to have it from a majority. Empty where a lease is not of permits.
///
/// As text such as `0-3,7`, the same for the same slots.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slots(Arc<str>);

impl Slots {
    /// The slots that `text` names, a node's word; `None` if it is of another form.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let known = |byte| matches!(byte, b'0'..=b'9' | b',' | b'-');
        text.bytes().all(known).then(|| Self(text.into()))
    }

    /// None that exist: no node has given them.
    #[must_use]
    pub fn nobodys() -> Self {
        Self("-".into())
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a node tells without being asked: hints, which may be late, repeated or lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// The name was given up here.
    Free(Name),
    /// The owner was put out by force here.
    Revoked(Owner),
    /// The connection is back.
    Reconnected,
}
