//! One of several independent servers that carry a lock together.
//!
//! A [`Node`] mends its connection by itself. Each connection is a [`Session`]: a server that
//! restarts ends it, so what was learned about the server holds for as long as the session does.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

pub use leasehold_core::quorum::trust::Facts;
use leasehold_core::{Attempt, Instant, Name, Owner, Released, Renewal, Renewed, Request, Status};
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

    /// Gives the lock to an owner that has not asked here before, or says who has it.
    fn vote<'a>(&'a self, request: &'a Request) -> Reply<'a, Result<Attempt, Failure>>;

    /// Raises the counter to the renewal's fencing token; `false` if its owner does not hold.
    fn raise<'a>(&'a self, claim: &'a Renewal) -> Reply<'a, Result<bool, Failure>>;

    /// Lengthens leases; one answer for each.
    fn extend<'a>(&'a self, claims: &'a [Renewal]) -> Reply<'a, Vec<Result<Renewed, Failure>>>;

    /// Gives a lease again to an owner that a majority says has it; `false` if another holds.
    fn replant<'a>(&'a self, claim: &'a Renewal) -> Reply<'a, Result<bool, Failure>>;

    /// Takes the lock from its owner, and tells those that listen if `tell`.
    fn give_up<'a>(
        &'a self,
        name: &'a Name,
        owner: &'a Owner,
        tell: bool,
    ) -> Reply<'a, Result<Released, Failure>>;

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

    /// A sign of life.
    fn ping(&self) -> Reply<'_, Result<(), Failure>>;
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
