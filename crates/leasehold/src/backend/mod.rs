//! What a store must do to carry locks, and the stores that come with this crate.
//!
//! A [`Backend`] makes **one attempt per call**. Waiting, retrying, renewing and timing are the
//! driver's; a backend that did them too would do them twice. The driver reads the clock before
//! each call, so a backend need not.
//!
//! What a backend must do is written at each method as a list under *Behaviour*, and
//! `leasehold-testkit` has the list as tests: a backend of your own passes the same suite.

use std::{
    error::Error as StdError,
    fmt,
    future::{Future, ready},
    sync::Arc,
    time::Duration,
};

pub use leasehold_core::{
    Attempt, ClientId, FencingToken, Grant, Held, Holder, HolderKind, Mode, Name, NodeView, Owner,
    Queued, Released, Renewal, Renewed, Request, Status, Ttl, Wait, Waiting,
};
use tokio::sync::mpsc;

pub use self::capabilities::Capabilities;
pub(crate) use self::{erased::ErasedBackend, token_base::TokenBase};
use crate::{clock::Clock, error::ErrorKind};

mod capabilities;
mod erased;
#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(feature = "file")]
pub mod file;
pub mod memory;
pub mod node;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "redlock")]
pub mod redlock;
#[cfg(any(feature = "etcd", feature = "redis", feature = "zookeeper"))]
mod text;
mod token_base;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

/// A store that carries locks.
///
/// # Cancellation
///
/// A future of these methods may be dropped at any point. The request may then have been sent or
/// not; requests of one owner that are sent later must not be executed before it.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// What this store can do, as data: tests, documents and errors read it.
    fn capabilities(&self) -> Capabilities;

    /// Where events for the owners of `client` will arrive. Called once per client, before any
    /// other method is called for it.
    ///
    /// Behaviour:
    /// - events are hints: they may be late, repeated or lost, and the driver re-checks anyway
    /// - it never blocks, and a receiver that is not read never blocks the store
    fn attach(&self, client: &ClientId) -> Events;

    /// Takes the lock for `request.owner`, or says who has it.
    ///
    /// Behaviour:
    /// - one atomic step in the store, sent at most once per call
    /// - granted only if no incompatible holder and no live waiter in front is there
    /// - the fencing token is greater than that of every earlier grant of the name, except that
    ///   shared holders of one phase have the same
    /// - an owner that already holds is granted again under the same token, after its lease was
    ///   lengthened to a full TTL, and is taken out of the queue
    /// - with `request.wait` the owner is in the queue afterwards unless granted; its ticket is
    ///   kept over repeated calls, its patience counted anew
    /// - without `request.wait` the queue is not changed for the caller
    fn acquire(&self, request: &Request) -> impl Future<Output = Result<Attempt, Failure>> + Send;

    /// Lengthens leases; one answer for each, in their order.
    ///
    /// Behaviour:
    /// - owner and fencing token are compared in the store, in the same step
    /// - never creates an entry, never shortens one
    /// - a batch costs far fewer requests than it has items
    fn renew(
        &self,
        renewals: &[Renewal],
    ) -> impl Future<Output = Vec<Result<Renewed, Failure>>> + Send;

    /// Gives up whatever `owner` has of `name`: the lock, a place in the queue, or both.
    ///
    /// Behaviour:
    /// - the owner is compared in the store, in the same step
    /// - the first waiters that fit are granted in the same step, and told by an event
    /// - with `min_hold`, the name stays taken until that long after the grant
    /// - may be repeated any number of times
    fn release(
        &self,
        name: &Name,
        owner: &Owner,
        min_hold: Option<Duration>,
    ) -> impl Future<Output = Result<Released, Failure>> + Send;

    /// Binds a lease to nothing but its TTL, which is set anew, so that it survives this process.
    ///
    /// Behaviour: as a renewal of one; afterwards the end of this process or session changes
    /// nothing.
    fn detach(&self, renewal: &Renewal) -> impl Future<Output = Result<Renewed, Failure>> + Send;

    /// Takes all of these locks or none, without waiting; `None` when one is not to be had.
    ///
    /// Requires [`Capabilities::many`]. Behaviour:
    /// - one atomic step in the store; `Unsupported` for more than that can take
    /// - each as by [`acquire`](Self::acquire) without waiting: it never goes past a live waiter
    fn acquire_all(
        &self,
        requests: &[Request],
    ) -> impl Future<Output = Result<Option<Vec<Grant>>, Failure>> + Send {
        let _ = requests;
        ready(Err(Failure::unsupported(
            "this store cannot take several locks in one step",
        )))
    }

    /// Turns an exclusive lease into a reader's under the same fencing token, and sets its TTL
    /// anew.
    ///
    /// Requires [`Capabilities::downgrade`]. Behaviour: as a renewal of one; the readers that wait
    /// in front are let in.
    fn downgrade(
        &self,
        renewal: &Renewal,
    ) -> impl Future<Output = Result<Renewed, Failure>> + Send {
        let _ = renewal;
        ready(Err(Failure::unsupported(
            "this store cannot turn a writer into a reader; file and redis can",
        )))
    }

    /// Publishes `note` about a holder for those who inspect the name, or takes it back.
    ///
    /// Requires [`Capabilities::notes`]. Behaviour: as a renewal of one; the note ends with the
    /// lease, at the latest one TTL after it was last published.
    fn annotate(
        &self,
        renewal: &Renewal,
        note: Option<&str>,
    ) -> impl Future<Output = Result<Renewed, Failure>> + Send {
        let _ = (renewal, note);
        ready(Err(Failure::unsupported(
            "this store keeps no notes about holders; file and redis do",
        )))
    }

    /// Who holds `name` and who waits for it.
    ///
    /// Behaviour: changes nothing in the store.
    fn inspect(&self, name: &Name) -> impl Future<Output = Result<Status, Failure>> + Send;

    /// The names that begin with `prefix` and are held or waited for, in pages.
    ///
    /// Behaviour:
    /// - `prefix` is taken literally
    /// - a name that is held from the first page to the last is on exactly one of them
    /// - changes nothing in the store
    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
    ) -> impl Future<Output = Result<Page, Failure>> + Send;

    /// Ends the lease whose owner value is `observed`, an operator's last resort. `true` if it was
    /// there.
    ///
    /// Behaviour:
    /// - only if the observed value still holds, compared in the store in the same step
    /// - never removes what is not a lock
    /// - the victim is told by an event, the first waiters that fit are granted
    fn force(
        &self,
        name: &Name,
        observed: &str,
    ) -> impl Future<Output = Result<bool, Failure>> + Send;

    /// Asks the store for a sign of life.
    fn ping(&self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// The clock the driver is to use with this store; `None` for the system's. A store with a
    /// virtual clock gives it here, so that holder and store agree on what time it is.
    fn clock(&self) -> Option<Clock>;

    /// A descriptor that keeps this client's leases alive while any process has it open, where the
    /// store binds leases to processes. For supervisors that outlive the holder.
    #[cfg(unix)]
    fn session(&self) -> Option<std::os::fd::OwnedFd>;
}

/// Where a backend's events for one client arrive.
pub type Events = mpsc::Receiver<Event>;

/// How many events are buffered for a client that does not read them; more are dropped.
pub const EVENT_BUFFER: usize = 4096;

/// Something that happened in the store without being asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A waiter was granted the lock by another's release.
    Granted {
        /// The lock.
        name: Name,
        /// The waiter.
        owner: Owner,
        /// Its fencing token.
        token: FencingToken,
        /// The number of its last attempt that the store had processed: the lease counts from when
        /// that one was sent.
        seq: u32,
    },
    /// A waiter should ask again at once.
    Again {
        /// The waiter.
        owner: Owner,
    },
    /// A holder was put out by force.
    Revoked {
        /// The former holder.
        owner: Owner,
    },
    /// The connection was lost and is back: everything held and waited for is to be checked.
    Reconnected,
    /// The session that this client's leases hung on is over.
    SessionLost,
}

/// Part of a listing.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Page {
    /// The names of this page with what is known of them.
    pub entries: Vec<Status>,
    /// What to pass for the next page; `None` on the last.
    pub next: Option<String>,
}

impl Page {
    /// A page.
    #[must_use]
    pub const fn new(entries: Vec<Status>, next: Option<String>) -> Self {
        Self { entries, next }
    }
}

/// Whether a request that failed can have had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)] // there is no third answer
pub enum Sent {
    /// It cannot: nothing was sent, or the store refused it as a whole.
    No,
    /// It can: no answer came.
    Maybe,
}

/// Why a backend could not answer. That another holds the lock is an answer, never a failure.
#[derive(Clone)]
pub struct Failure(Box<Cause>);

#[derive(Clone)]
struct Cause {
    kind: ErrorKind,
    sent: Sent,
    message: String,
    hint: Option<String>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Failure {
    /// A failure of kind `kind`, `sent` saying whether the request can have had an effect.
    #[must_use]
    pub fn new(kind: ErrorKind, sent: Sent, message: impl Into<String>) -> Self {
        Self(Box::new(Cause {
            kind,
            sent,
            message: message.into(),
            hint: None,
            source: None,
        }))
    }

    /// The store cannot be reached or cannot serve; nothing was sent.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, Sent::No, message)
    }

    /// The request was sent and no answer came.
    #[must_use]
    pub fn no_answer(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, Sent::Maybe, message)
    }

    /// This store cannot do that; `message` names one that can.
    #[must_use]
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, Sent::No, message)
    }

    /// The same failure with what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same failure with the error behind it.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// The same failure of a request that may have had an effect.
    #[must_use]
    pub const fn maybe_sent(mut self) -> Self {
        self.0.sent = Sent::Maybe;
        self
    }

    /// What went wrong.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the request can have had an effect.
    #[must_use]
    pub const fn sent(&self) -> Sent {
        self.0.sent
    }

    /// What went wrong, in one line without the lock's name.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Whether the driver should try again: the store was away, not the request wrong.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Unavailable | ErrorKind::Ambiguous)
    }

    pub(crate) fn source(&self) -> Option<Arc<dyn StdError + Send + Sync>> {
        self.0.source.clone()
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} (sent: {:?}): {}",
            self.0.kind, self.0.sent, self.0.message
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
