//! The same API without `.await`, for programs without an async runtime.
//!
//! A client has a thread of its own, so renewal goes on while the caller computes. Calls may be
//! made from anywhere, also from inside an async runtime, whose thread they block like any other
//! blocking call; they never wait for that runtime, so they cannot lock up with it.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold::blocking::Client;
//!
//! let client = Client::connect("memory:")?; // or file:, redis://…
//! let guard = client.lock("invoices/42").acquire()?;
//! guard.check()?;
//! guard.release()?;
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use leasehold_core::Status;

use crate::{
    Lease,
    backend::{Backend, Capabilities},
    builder::ClientBuilder,
    driver::OwnThread,
    error::Result,
};

mod election;
mod guard;
mod locks;

#[cfg(test)]
mod tests;

pub use self::{
    election::{Election, Leadership},
    guard::{Guard, MultiGuard},
    locks::{Lock, MultiLock, RwLock, Semaphore},
};

/// A connection to a store of locks, as [`crate::Client`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    inner: crate::Client,
    thread: OwnThread,
}

impl Client {
    /// Connects to the store that `url` names, with the default settings.
    ///
    /// # Errors
    ///
    /// As [`ClientBuilder::connect`].
    pub fn connect(url: &str) -> Result<Self> {
        Self::connect_with(crate::Client::builder(), url)
    }

    /// Connects to the store that `url` names, with these settings.
    ///
    /// # Errors
    ///
    /// As [`ClientBuilder::connect`].
    pub fn connect_with(builder: ClientBuilder, url: &str) -> Result<Self> {
        let thread = OwnThread::start()?;
        let (on, url) = (thread.clone(), url.to_owned());
        let inner = thread.wait(async move { builder.connect_on(Some(on), &url).await })??;
        Ok(Self { inner, thread })
    }

    /// A client on a store that is already open, with the default settings.
    ///
    /// # Errors
    ///
    /// As [`ClientBuilder::build`].
    pub fn new(backend: impl Backend) -> Result<Self> {
        let thread = OwnThread::start()?;
        let inner = crate::Client::builder().build_on(Some(thread.clone()), backend)?;
        Ok(Self { inner, thread })
    }

    /// The exclusive lock on `name`.
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        Lock::new(self.inner.lock(name), &self.thread)
    }

    /// The readers-writer lock on `name`.
    pub fn rw_lock(&self, name: impl Into<String>) -> RwLock {
        RwLock::new(self.inner.rw_lock(name), &self.thread)
    }

    /// The semaphore `name` of `permits` permits.
    pub fn semaphore(&self, name: impl Into<String>, permits: u32) -> Semaphore {
        Semaphore::new(self.inner.semaphore(name, permits), &self.thread)
    }

    /// All of these locks or none, under one guard.
    pub fn lock_all<I, S>(&self, names: I) -> MultiLock
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        MultiLock::new(self.inner.lock_all(names), &self.thread)
    }

    /// The election `name`.
    pub fn election(&self, name: impl Into<String>) -> Election {
        Election::new(self.inner.election(name), &self.thread)
    }

    /// Who holds `name` and who waits for it.
    ///
    /// # Errors
    ///
    /// As [`crate::Client::inspect`].
    pub fn inspect(&self, name: &str) -> Result<Status> {
        let (client, name) = (self.inner.clone(), name.to_owned());
        self.thread
            .wait(async move { client.inspect(&name).await })?
    }

    /// The names that begin with `prefix` and are held or waited for.
    ///
    /// # Errors
    ///
    /// As [`crate::Client::list`].
    pub fn list(&self, prefix: &str) -> Result<Vec<Status>> {
        let (client, prefix) = (self.inner.clone(), prefix.to_owned());
        self.thread
            .wait(async move { client.list(&prefix).await })?
    }

    /// Takes over a lease that another process gave out.
    ///
    /// # Errors
    ///
    /// As [`crate::Client::adopt`].
    pub fn adopt(&self, lease: Lease) -> Result<Guard> {
        let client = self.inner.clone();
        let guard = self
            .thread
            .wait(async move { client.adopt(lease).await })??;
        Ok(Guard::new(guard, &self.thread))
    }

    /// Ends a lease that is not this client's: an operator's last resort.
    ///
    /// # Errors
    ///
    /// As [`crate::Client::force_release`].
    pub fn force_release(&self, name: &str, owner: &str) -> Result<bool> {
        let (client, name, owner) = (self.inner.clone(), name.to_owned(), owner.to_owned());
        self.thread
            .wait(async move { client.force_release(&name, &owner).await })?
    }

    /// What the store can do.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    /// Asks the store for a sign of life.
    ///
    /// # Errors
    ///
    /// As [`crate::Client::ping`].
    pub fn ping(&self) -> Result<()> {
        let client = self.inner.clone();
        self.thread.wait(async move { client.ping().await })?
    }

    /// Refuses new locks, releases what is held, and waits until that is confirmed, for `limit` at
    /// most.
    ///
    /// # Errors
    ///
    /// As [`crate::Client::shutdown`].
    pub fn shutdown(&self, limit: Duration) -> Result<()> {
        let client = self.inner.clone();
        self.thread
            .wait(async move { client.shutdown(limit).await })?
    }
}
