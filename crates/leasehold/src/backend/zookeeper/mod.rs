#![doc = include_str!("README.md")]

use std::{fmt, sync::Arc, time::Duration};

use leasehold_core::{
    Attempt, ClientId, Grant, Name, Owner, Released, Renewal, Renewed, Request, Status,
};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::config::Config;
pub(crate) use self::keys::Tree;
use self::{claims::Claims, claims::Key, failure::from_error, session::Sessions, shared::Shared};
use super::{Backend, Capabilities, Events, Failure, Page};
use crate::clock::Clock;

mod acquire;
mod attend;
mod claims;
mod config;
mod failure;
mod keys;
mod line;
mod look;
mod read;
mod release;
mod renew;
mod session;
mod several;
mod shared;
mod url;
mod view;
mod wire;

/// Locks as ephemeral nodes of a ZooKeeper.
pub struct ZooKeeper {
    shared: Arc<Shared>,
    /// Ends the tasks, and with them the session.
    _stop: DropGuard,
}

impl ZooKeeper {
    /// Opens a session.
    ///
    /// # Errors
    ///
    /// Within the connect timeout: [`Invalid`](crate::ErrorKind::Invalid) for a configuration that
    /// cannot be, or sessions so short that they have no validity;
    /// [`Denied`](crate::ErrorKind::Denied) when the login is refused;
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when no server gives a session.
    ///
    /// # Cancel safety
    ///
    /// Safe: the session is closed.
    pub async fn connect(config: Config) -> Result<Self, Failure> {
        config.check()?;
        let tree = config.tree()?;
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            sessions: Sessions::open(config).await?,
            claims: Claims::default(),
            tree,
            stop: stop.clone(),
        });
        tokio::spawn(Arc::clone(&shared).keep());
        Ok(Self {
            shared,
            _stop: stop.drop_guard(),
        })
    }
}

impl fmt::Debug for ZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeper")
            .field("config", self.shared.sessions.config())
            .finish_non_exhaustive()
    }
}

impl Backend for ZooKeeper {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new("zookeeper");
        capabilities.shared = true;
        capabilities.permits = true;
        capabilities.fair = true;
        capabilities.hand_off = true;
        capabilities.many = true;
        capabilities.downgrade = true;
        capabilities.notes = true;
        capabilities.networked = true;
        capabilities
    }

    fn attach(&self, client: &ClientId) -> Events {
        self.shared.claims.attach(client)
    }

    async fn acquire(&self, request: &Request) -> Result<Attempt, Failure> {
        acquire::run(&self.shared, request).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Vec<Result<Renewed, Failure>> {
        renew::run(&self.shared, renewals).await
    }

    async fn release(
        &self,
        name: &Name,
        owner: &Owner,
        _min_hold: Option<Duration>,
    ) -> Result<Released, Failure> {
        release::run(&self.shared, &Key::new(name, owner)).await
    }

    async fn detach(&self, _renewal: &Renewal) -> Result<Renewed, Failure> {
        Err(Failure::unsupported(
            "a node ends with its session, so that zookeeper cannot detach a lease; redis, \
             redlock and file can",
        ))
    }

    async fn acquire_all(&self, requests: &[Request]) -> Result<Option<Vec<Grant>>, Failure> {
        several::run(&self.shared, requests).await
    }

    async fn downgrade(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        renew::downgrade(&self.shared, renewal).await
    }

    async fn annotate(&self, renewal: &Renewal, note: Option<&str>) -> Result<Renewed, Failure> {
        renew::annotate(&self.shared, renewal, note).await
    }

    async fn inspect(&self, name: &Name) -> Result<Status, Failure> {
        view::inspect(&self.shared, name).await
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Page, Failure> {
        view::list(&self.shared, prefix, after).await
    }

    async fn force(&self, name: &Name, observed: &str) -> Result<bool, Failure> {
        view::force(&self.shared, name, observed).await
    }

    async fn ping(&self) -> Result<(), Failure> {
        let session = self.shared.sessions.current().await?;
        let answer = session.client.check_stat(self.shared.tree.root()).await;
        answer.map(drop).map_err(from_error)
    }

    fn clock(&self) -> Option<Clock> {
        None
    }

    #[cfg(unix)]
    fn session(&self) -> Option<std::os::fd::OwnedFd> {
        None
    }
}
