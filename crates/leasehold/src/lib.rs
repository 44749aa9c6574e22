//! Distributed locks one can reason about: a guard that waits its turn, renews itself, knows when
//! it is lost, and carries a fencing token for the times it finds out too late.
//!
//! ```
//! # async fn charge(_: leasehold::FencingToken) -> Result<(), leasehold::Error> { Ok(()) }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold::Client;
//!
//! let client = Client::connect("memory:").await?; // or file:, redis://…
//! let guard = client.lock("invoices/42").acquire().await?;
//! tokio::select! {
//!     done = charge(guard.fencing_token()) => done?, // the resource refuses stale fencing tokens
//!     loss = guard.lost() => eprintln!("stopped: {loss:?}"),
//! }
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What a guard promises
//!
//! A [`Guard`] exists only while the lock is held, and [`Guard::check`] says so by the holder's own
//! clock, without asking anyone: *up to the deadline the store gives the lock to nobody else*. That
//! holds for bounded clock rates, a store that kept its data, and an operator who forced nothing.
//! Nothing can promise that the process is not stopped between a check and what it does next: for
//! that, pass the [`FencingToken`] to the resource and let it refuse smaller ones.
//!
//! # Where to start
//!
//! [`Client`] connects, [`Lock`] acquires, [`Guard`] holds. [`backend`] has the stores and what
//! each promises, and the trait for a store of your own.

pub mod backend;
#[cfg(feature = "blocking")]
pub mod blocking;
pub mod clock;
pub mod fence;
pub mod random;

mod builder;
mod client;
mod connect;
mod driver;
mod election;
mod error;
mod guard;
mod lease;
mod lock;
mod multi_lock;
mod run;
mod rw_lock;
mod semaphore;
mod shared_guard;
mod terms;

pub use builder::ClientBuilder;
pub use client::Client;
pub use election::{Election, Leader, Leadership, Observe};
pub use error::{Error, ErrorKind, Result};
pub use guard::Guard;
pub use lease::Lease;
pub use leasehold_core::{
    FencingToken, Holder, HolderKind, Instant, Mode, Name, NodeView, Owner, Status, Ttl, Waiting,
    lease::{Loss, Renew},
    validity::Drift,
};
pub use lock::Lock;
pub use multi_lock::{MultiGuard, MultiLock};
pub use run::RunError;
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
pub use shared_guard::SharedGuard;
pub use tokio_util::sync::CancellationToken;

/// The programs of the page on fencing are run with the documentation tests.
#[cfg(all(doctest, feature = "fence-postgres"))]
#[doc = include_str!("../../../docs/fencing.md")]
struct Fencing;

/// The README's example is compiled with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
