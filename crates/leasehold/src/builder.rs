use std::{sync::Arc, time::Duration};

use leasehold_core::{Label, LabelError, Ttl, TtlError, lease::Renew, validity::Drift};
use tokio::runtime::Handle;

use crate::{
    backend::{Backend, ErasedBackend, TokenBase},
    client::{Client, Defaults},
    connect::{self, Options},
    driver::{Driver, OwnThread, Settings},
    error::{Error, ErrorKind, Result},
    random::Random,
};

/// How a [`Client`] is set up. Ends with [`connect`](Self::connect) or [`build`](Self::build).
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `connect` or `build` is called"]
pub struct ClientBuilder {
    prefix: Option<String>,
    ttl: Duration,
    renew: Renew,
    label: String,
    drift: Drift,
    connect_timeout: Duration,
    call_timeout: Duration,
    own_thread: bool,
    token_base: u64,
    random: Random,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            prefix: None,
            ttl: Ttl::DEFAULT.get(),
            renew: Renew::default(),
            label: String::new(),
            drift: Drift::default(),
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(5),
            own_thread: false,
            token_base: 0,
            random: Random::system(),
        }
    }
}

impl ClientBuilder {
    /// What is put before every name in the store. Default: what the store has (`lock:` on Redis,
    /// nothing elsewhere). All clients of a name must use the same.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// The TTL of locks that ask for none of their own: 100 ms to 24 h. Default: 30 s.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How locks are renewed that say nothing of their own. Default: until released.
    pub const fn renew(mut self, renew: Renew) -> Self {
        self.renew = renew;
        self
    }

    /// Words about this client for people who look at who holds what; at most 200 bytes.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// What the clocks of this host and the store may differ by over one TTL. Default: 1 %.
    /// [`Drift::SLEWING`] suits hosts whose clocks chrony may slew at its default limit.
    pub const fn drift(mut self, drift: Drift) -> Self {
        self.drift = drift;
        self
    }

    /// How long connecting may take. Default: 5 s.
    pub const fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long one request to the store may take before it counts as unanswered. Default: 5 s. A
    /// renewal has a tighter limit, so that it can be tried again before the deadline.
    pub const fn call_timeout(mut self, limit: Duration) -> Self {
        self.call_timeout = limit;
        self
    }

    /// Renews on a thread of its own, so that locks stay held while the caller's runtime is
    /// blocked. Default: on the runtime that is current at `connect`.
    pub const fn own_thread(mut self) -> Self {
        self.own_thread = true;
        self
    }

    /// What is added to the store's fencing tokens: at most 2^52. Default: nothing.
    ///
    /// For moving locks to another store, so that what is fenced goes on: pass at least the last
    /// fencing token of the old store. All clients of a name must use the same.
    pub const fn token_base(mut self, base: u64) -> Self {
        self.token_base = base;
        self
    }

    /// Where random bits come from: for tests that replay.
    pub fn random(mut self, random: Random) -> Self {
        self.random = random;
        self
    }

    /// Connects to the store that `url` names: `memory:`, `file:PATH`, `redis://HOST:PORT`.
    ///
    /// # Errors
    ///
    /// `Invalid` for a URL or setting that is not allowed, `Unavailable` when the store does not
    /// answer within [`connect_timeout`](Self::connect_timeout), `Denied` when it refuses this
    /// user.
    ///
    /// # Cancel safety
    ///
    /// Safe: a connection half made is dropped.
    pub async fn connect(self, url: &str) -> Result<Client> {
        self.defaults()?;
        let thread = self.thread()?;
        self.connect_on(thread, url).await
    }

    pub(crate) async fn connect_on(self, thread: Option<OwnThread>, url: &str) -> Result<Client> {
        let options = Options {
            prefix: self.prefix.clone(),
            connect_timeout: self.connect_timeout,
            call_timeout: self.call_timeout,
            random: self.random.clone(),
        };
        let backend = match &thread {
            // On the heap: it is large, and done once.
            None => Box::pin(connect::open(url, options)).await?,
            Some(thread) => {
                let url = url.to_owned();
                thread
                    .run(async move { connect::open(&url, options).await })
                    .await??
            }
        };
        self.assemble(backend, thread)
    }

    /// Uses a store that is already open.
    ///
    /// # Errors
    ///
    /// `Invalid` for a setting that is not allowed, also for a prefix: it belongs to a store that
    /// is opened by URL.
    pub fn build(self, backend: impl Backend) -> Result<Client> {
        if self.prefix.is_some() {
            let reason = "a prefix is set where the store is opened, not on a store already open";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let thread = self.thread()?;
        self.assemble(Arc::new(backend), thread)
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn build_on(
        self,
        thread: Option<OwnThread>,
        backend: impl Backend,
    ) -> Result<Client> {
        self.assemble(Arc::new(backend), thread)
    }

    /// A thread of its own if one is asked for, or if there is no runtime to be on.
    fn thread(&self) -> Result<Option<OwnThread>> {
        let wanted = self.own_thread || Handle::try_current().is_err();
        wanted.then(OwnThread::start).transpose()
    }

    fn assemble(
        self,
        backend: Arc<dyn ErasedBackend>,
        thread: Option<OwnThread>,
    ) -> Result<Client> {
        let defaults = self.defaults()?;
        let settings = Settings {
            drift: self.drift,
            random: self.random,
            call_limit: self.call_timeout,
        };
        let runtime = match &thread {
            Some(thread) => thread.runtime().clone(),
            None => Handle::current(),
        };
        let backend = match self.token_base {
            0 => backend,
            base => Arc::new(TokenBase::new(backend, base, runtime.clone())),
        };
        Ok(Client::assemble(
            Driver::start(backend, settings, &runtime, thread),
            defaults,
        ))
    }

    fn defaults(&self) -> Result<Defaults> {
        let ttl = Ttl::new(self.ttl).map_err(|error: TtlError| Error::from(error))?;
        let label =
            Label::new(self.label.as_str()).map_err(|error: LabelError| Error::from(error))?;
        if self.call_timeout.is_zero() || self.connect_timeout.is_zero() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "a timeout of zero lets nothing succeed",
            ));
        }
        if self.token_base > TokenBase::MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                "a token base is at most 2^52: together with it, fencing tokens stay below 2^53",
            ));
        }
        Ok(Defaults {
            ttl,
            renew: self.renew,
            label,
        })
    }
}
