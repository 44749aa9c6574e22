//! What every backend must do, as ordinary functions over a [`Topology`].
//!
//! Two groups of cases: those named after a method of [`Backend`] hold a store to the *Behaviour*
//! written there; those that begin with `client_` hold the whole library to its promises on that
//! store. [`conformance!`](crate::conformance!) makes a test of each.
//!
//! ```text
//! mod my_store {
//!     leasehold_testkit::conformance!(crate::MyTopology);
//! }
//! ```
//!
//! What a store cannot do is data ([`Backend::capabilities`]); such a case then demands the answer
//! `Unsupported` instead.

use std::{future::Future, time::Duration};

use leasehold::backend::{Backend, Capabilities, FencingToken};

pub use self::peer::{BRIEF, LONG, Lease, Peer, SHORT, SOON};

pub mod acquire;
pub mod client;
pub mod client_acquire;
pub mod client_election;
pub mod client_ending;
pub mod client_kinds;
pub mod client_lease;
pub mod client_modes;
pub mod client_several;
pub mod detach;
pub mod force;
pub mod inspect;
pub mod min_hold;
pub mod names;
pub mod queue;
pub mod release;
pub mod renew;
pub mod several;
pub mod shared;

pub mod peer;
mod registry;

pub use self::registry::CASES;

/// A store under test, empty at first, and how clients reach it.
pub trait Topology: Sized + Send + Sync + 'static {
    /// The backend under test.
    type Backend: Backend;

    /// Whether the store follows tokio's clock, so that a case may run in paused time.
    const VIRTUAL: bool = false;

    /// A new, empty store.
    fn start() -> impl Future<Output = Self> + Send;

    /// A new handle on the store, sharing nothing with others: as another process would have it.
    fn connect(&self) -> impl Future<Output = Self::Backend> + Send;
}

/// Runs one case on a runtime and a store of its own.
pub fn run<T: Topology>(case: impl AsyncFnOnce(&T)) {
    let mut builder = if T::VIRTUAL {
        tokio::runtime::Builder::new_current_thread()
    } else {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2);
        builder
    };
    let runtime = builder
        .enable_all()
        .start_paused(T::VIRTUAL)
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = T::start().await;
        let limit = Duration::from_secs(300);
        assert!(
            tokio::time::timeout(limit, case(&store)).await.is_ok(),
            "the case hangs"
        );
    });
}

/// Whether these are the fencing tokens of holders that share a phase, in the order of their
/// grants. They have the same, unless several nodes gave them, which may have differed.
fn share(able: Capabilities, first: FencingToken, second: FencingToken) -> bool {
    first == second || able.fresh_owners
}

/// Whether the store lacks what a case is about and cannot even be asked for; then it says so, for
/// no case is left out in silence.
#[allow(clippy::print_stderr)]
fn lacks(able: bool, capability: &str) -> bool {
    if !able {
        eprintln!("left out: the store does not have the capability {capability}");
    }
    !able
}
