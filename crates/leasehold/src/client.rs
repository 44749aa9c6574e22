use std::{sync::Arc, time::Duration};

use leasehold_core::{Label, Name, Status, Ttl, lease::Renew};

use crate::{
    backend::{Backend, Capabilities, Failure},
    builder::ClientBuilder,
    clock::Clock,
    driver::{Driver, adopt},
    election::Election,
    error::{Error, ErrorKind, Result},
    guard::Guard,
    lease::Lease,
    lock::Lock,
    multi_lock::MultiLock,
    rw_lock::RwLock,
    semaphore::Semaphore,
};

/// A connection to a store of locks. Cheap to clone; clones share everything.
///
/// Renewal and clean-up run on the runtime that was current at `connect`, or on a thread of their
/// own ([`ClientBuilder::own_thread`]). Dropping the last clone does not end guards that are still
/// held. When that runtime ends, calls answer `Unavailable` and guards are lost at their deadlines.
///
/// In a child forked from this process every call is refused and nothing is released: the lock
/// belongs to the parent.
#[derive(Clone, Debug)]
pub struct Client {
    driver: Arc<Driver>,
    defaults: Arc<Defaults>,
}

/// What locks have that say nothing of their own.
#[derive(Debug)]
pub(crate) struct Defaults {
    pub(crate) ttl: Ttl,
    pub(crate) renew: Renew,
    pub(crate) label: Label,
}

impl Client {
    /// Connects to the store that `url` names: `memory:`, `file:PATH`, `redis://HOST:PORT`.
    ///
    /// # Errors
    ///
    /// As [`ClientBuilder::connect`].
    ///
    /// # Cancel safety
    ///
    /// Safe: a connection half made is dropped.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder().connect(url).await
    }

    /// Connects to the store that the environment variable `LEASEHOLD_URL` names, under the prefix
    /// in `LEASEHOLD_PREFIX` and with the [base](ClientBuilder::token_base) in
    /// `LEASEHOLD_TOKEN_BASE` if these are set.
    ///
    /// # Errors
    ///
    /// `Invalid` when the first is not set or empty, or the last is no number; else as
    /// [`ClientBuilder::connect`].
    ///
    /// # Cancel safety
    ///
    /// Safe: a connection half made is dropped.
    pub async fn from_env() -> Result<Self> {
        let url = std::env::var("LEASEHOLD_URL").unwrap_or_default();
        if url.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "LEASEHOLD_URL is not set")
                .with_hint("set it to the store, for example file: or redis://127.0.0.1:6379"));
        }
        let builder = match std::env::var("LEASEHOLD_PREFIX") {
            Ok(prefix) => Self::builder().prefix(prefix),
            Err(_) => Self::builder(),
        };
        let builder = match std::env::var("LEASEHOLD_TOKEN_BASE") {
            Ok(base) => builder.token_base(base.parse().map_err(|_| {
                let reason = format!("LEASEHOLD_TOKEN_BASE is not a whole number: {base:?}");
                Error::new(ErrorKind::Invalid, reason)
            })?),
            Err(_) => builder,
        };
        builder.connect(&url).await
    }

    /// Sets up a client step by step.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A client on a store that is already open, with the default settings.
    ///
    /// # Errors
    ///
    /// `Unavailable` when there is no runtime and no thread can be started for one.
    pub fn new(backend: impl Backend) -> Result<Self> {
        Self::builder().build(backend)
    }

    pub(crate) fn assemble(driver: Arc<Driver>, defaults: Defaults) -> Self {
        Self {
            driver,
            defaults: Arc::new(defaults),
        }
    }

    /// The exclusive lock on `name`. Nothing is sent; a name that is not allowed is refused when
    /// the lock is used.
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        Lock::new(self.clone(), name.into())
    }

    /// The readers-writer lock on `name`: many readers or one writer. A writer holds the same lock
    /// as [`lock`](Self::lock) of that name.
    pub fn rw_lock(&self, name: impl Into<String>) -> RwLock {
        RwLock::new(self.clone(), name.into())
    }

    /// The semaphore `name` of `permits` permits: 1 to 1 000 000, the same for all who use it.
    pub fn semaphore(&self, name: impl Into<String>, permits: u32) -> Semaphore {
        Semaphore::new(self.clone(), name.into(), permits)
    }

    /// The election `name`: of all who campaign, one leads.
    pub fn election(&self, name: impl Into<String>) -> Election {
        Election::new(self.clone(), name.into())
    }

    /// All of these locks or none, under one guard.
    pub fn lock_all<I, S>(&self, names: I) -> MultiLock
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        MultiLock::new(self.clone(), names.into_iter().map(Into::into).collect())
    }

    /// Who holds `name` and who waits for it.
    ///
    /// # Errors
    ///
    /// `Invalid` for a name that is not allowed, `Unavailable`, `Denied`.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    pub async fn inspect(&self, name: &str) -> Result<Status> {
        let checked = Name::new(name)?;
        let answer = self
            .bounded(self.driver.shared.backend.inspect(&checked), "inspect")
            .await;
        answer.map_err(|error| error.with_lock_name(name))
    }

    /// The names that begin with `prefix` and are held or waited for. `prefix` is taken literally;
    /// empty lists all.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Denied`.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    pub async fn list(&self, prefix: &str) -> Result<Vec<Status>> {
        let mut entries = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let call = self.driver.shared.backend.list(prefix, after.as_deref());
            let page = self.bounded(call, "list").await?;
            entries.extend(page.entries);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(entries),
            }
        }
    }

    /// Takes over a lease that another process gave out with [`Guard::into_lease`]: it is set to
    /// its full TTL and renewed from here on. A lease is adopted once: its guard releases it at
    /// its end, also if another has adopted it too, who then learns of it late.
    ///
    /// # Errors
    ///
    /// `Lost` when the lease is over; `Conflict` when this client has adopted it already;
    /// `Unavailable`, `Ambiguous`, `Denied`. After an error the lease is as it was, or lengthened
    /// once.
    ///
    /// # Cancel safety
    ///
    /// Safe: the lease may have been lengthened once, and can be adopted again.
    pub async fn adopt(&self, lease: Lease) -> Result<Guard> {
        let named = |error: Error| error.with_lock_name(lease.name().as_str());
        let held = adopt::adopt(&self.driver, &lease, self.defaults.renew).await;
        Ok(Guard::new(Arc::clone(&self.driver), held.map_err(named)?))
    }

    /// Ends a lease that is not this client's: an operator's last resort, for a holder that hangs.
    /// `owner` is the [`Holder::value`](crate::Holder::value) that inspection showed; if another
    /// holds by now, nothing happens and the answer is `false`.
    ///
    /// The victim may still be at work: only a fencing token keeps it from doing harm.
    ///
    /// # Errors
    ///
    /// `Invalid` for a name that is not allowed, `Unavailable`, `Ambiguous`, `Denied`.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the lease may have been ended.
    pub async fn force_release(&self, name: &str, owner: &str) -> Result<bool> {
        let checked = Name::new(name)?;
        let call = self.driver.shared.backend.force(&checked, owner);
        self.bounded(call, "force")
            .await
            .map_err(|error| error.with_lock_name(name))
    }

    /// What the store can do.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.driver.shared.backend.capabilities()
    }

    /// Asks the store for a sign of life.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Denied`.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn ping(&self) -> Result<()> {
        self.bounded(self.driver.shared.backend.ping(), "ping")
            .await
    }

    /// The clock that deadlines are read on.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.driver.shared.clock.clone()
    }

    /// A descriptor that keeps this client's leases alive while any process has it open, where the
    /// store binds leases to processes (the file store); `None` elsewhere. For supervisors that
    /// outlive the holder. It is closed on exec unless its owner changes that.
    #[cfg(unix)]
    #[must_use]
    pub fn session(&self) -> Option<std::os::fd::OwnedFd> {
        self.driver.shared.backend.session()
    }

    /// Refuses new locks, releases what is held, and waits until the store has confirmed every
    /// release, for `limit` at most. Guards that were held answer `Lost` from here on.
    ///
    /// # Errors
    ///
    /// `Ambiguous` when releases were not confirmed, or not in time: what they held ends with its
    /// TTL. `Unavailable` in a forked child.
    ///
    /// # Cancel safety
    ///
    /// Safe: releases that began go on in the background.
    pub async fn shutdown(&self, limit: Duration) -> Result<()> {
        if self.driver.shut_down(limit).await? {
            return Ok(());
        }
        let reason = format!("some releases were not confirmed within {limit:?}");
        Err(Error::new(ErrorKind::Ambiguous, reason)
            .with_hint("what they held stays taken until its TTL"))
    }

    pub(crate) const fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }

    pub(crate) fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// One call to the store within the call's time limit.
    async fn bounded<T>(
        &self,
        call: impl Future<Output = Result<T, Failure>>,
        what: &str,
    ) -> Result<T> {
        self.driver.check_usable()?;
        let shared = &self.driver.shared;
        let until = shared.clock.now().after(shared.settings.call_limit);
        tokio::select! { biased;
            answer = call => answer.map_err(Error::from),
            () = shared.clock.sleep_until(until) => Err(shared.no_answer(what).into()),
        }
    }
}
