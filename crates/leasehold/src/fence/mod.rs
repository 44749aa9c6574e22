//! The checking side: resources that refuse a holder who comes too late.
//!
//! A lock cannot stop a holder that was paused past its lease and goes on. The resource can: it
//! keeps the largest [`FencingToken`](crate::FencingToken) it has seen and refuses smaller ones, in
//! the same step as the write. Equal ones are accepted, since a holder writes many times.
//!
//! Here that is one call, `claim`, and what it answers is the only way to read or write. So nobody
//! reads before having claimed, which matters as much as the check itself: a delayed write of the
//! holder before, arriving between a read and the write that rests on it, would be lost unseen.
//!
//! | resource | module | what is claimed |
//! |---|---|---|
//! | PostgreSQL | `postgres` (`tokio-postgres`), `sqlx` | your transaction |
//! | MySQL, MariaDB | `sqlx` | your transaction |
//! | SQLite | `sqlite` (`rusqlite`) | your transaction |
//! | Redis, Valkey | `redis` | a key; commands that run in one script |
//! | object stores | `object_store` | an object, by conditional writes |
//! | etcd | `etcd` | a key, by a comparison in the transaction |
//! | ZooKeeper | `zookeeper` | a node; operations in one `multi` |
//! | files | [`mod@file`] | a file, under a lock beside it |
//! | HTTP services | `http` | a request: a header, and a layer that answers 412 |
//! | this process | [`memory`] | a value |
//!
//! Each module with a dependency has a feature: `fence-postgres`, `fence-sqlx`, … The statements
//! for other languages are in [`sql`], and `leasehold fence` prints them. [`kit`] tests a store of
//! your own.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold::fence::{Claim, Fence, memory::Memory};
//!
//! let client = leasehold::Client::connect("memory:").await?;
//! let invoices = Memory::default();
//!
//! let guard = client.lock("invoices/42").acquire().await?;
//! let mut claim = invoices.claim("invoices/42", &guard).await?; // older ones are now refused
//! let mut content = claim.read().await?;
//! content.extend(b"charged\n");
//! claim.write(&content).await?;
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "etcd")]
pub mod etcd;
pub mod file;
#[cfg(feature = "fence-http")]
pub mod http;
pub mod kit;
pub mod memory;
#[cfg(feature = "fence-object-store")]
pub mod object_store;
#[cfg(feature = "fence-postgres")]
pub mod postgres;
#[cfg(feature = "fence-redis")]
pub mod redis;
pub mod sql;
#[cfg(feature = "fence-sqlite")]
pub mod sqlite;
#[cfg(feature = "fence-sqlx")]
pub mod sqlx;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

mod error;
mod pass;

pub use error::{Error, Result};
pub use pass::Pass;

/// Resources that refuse a smaller fencing token than the largest they have seen.
///
/// What is claimed here is a named piece of content. SQL databases have more to offer than that,
/// and are claimed with functions of their own, which take your transaction.
pub trait Fence: Sync {
    /// What reads and writes.
    type Claim: Claim;

    /// Raises the mark of `resource` to the fencing token of `pass`, for good: from now on, smaller
    /// ones are refused.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] when a larger one has been seen: stop, another holds the lock. The others
    /// say why nothing could be found out.
    ///
    /// # Cancel safety
    ///
    /// Safe: the mark may have been raised.
    fn claim(
        &self,
        resource: &str,
        pass: impl Into<Pass> + Send,
    ) -> impl Future<Output = Result<Self::Claim>> + Send;
}

/// A claimed resource. Every call checks again, since a later holder may have claimed meanwhile.
pub trait Claim: Send {
    /// The content; empty before the first write.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] when a larger fencing token has been seen, and others.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    fn read(&mut self) -> impl Future<Output = Result<Vec<u8>>> + Send;

    /// Replaces the content, unless a larger fencing token has been seen.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`], and then nothing was written. After [`Error::Store`] it may have been.
    ///
    /// # Cancel safety
    ///
    /// It may or may not have been written, but never by half.
    fn write(&mut self, content: &[u8]) -> impl Future<Output = Result<()>> + Send;
}
