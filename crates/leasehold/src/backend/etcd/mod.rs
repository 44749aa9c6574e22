#![doc = include_str!("README.md")]

use std::{fmt, sync::Arc, time::Duration};

use leasehold_core::{
    Attempt, ClientId, Grant, Name, Owner, Released, Renewal, Renewed, Request, Status,
};
use tokio::{sync::mpsc, task::AbortHandle};

pub use self::config::Config;
pub(crate) use self::keyspace::{Done, If, Kept, Keyspace, Then};
use self::{hub::Hub, members::Members, proto::RangeRequest, store::Store};
use crate::{
    backend::{Backend, Capabilities, Events, Failure, Page},
    clock::Clock,
};

mod attempt;
mod config;
mod failure;
mod form;
mod hub;
mod keys;
mod keyspace;
mod line;
mod look;
mod members;
mod own;
mod proto;
mod release;
mod renewal;
mod sessions;
mod several;
mod store;
mod sweep;
mod tls;
mod url;
mod versions;
mod waiting;
mod watch;

/// A store on an etcd cluster.
pub struct Etcd {
    config: Config,
    hub: Arc<Hub>,
    tasks: [AbortHandle; 2],
}

impl Etcd {
    /// Connects to the first member that answers.
    ///
    /// Needs a tokio runtime; what it has to do in the background runs there until it is dropped.
    ///
    /// # Errors
    ///
    /// `Unavailable` when no member answers or the cluster has no leader, `Denied` when the user is
    /// refused, `Invalid` when the configuration contradicts itself.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves nothing behind.
    pub async fn connect(config: Config) -> Result<Self, Failure> {
        let members = Members::new(&config, config.random.bits())?;
        let prefix = config.prefix.clone();
        let (watcher, commands) = mpsc::unbounded_channel();
        let hub = Arc::new(Hub::new(Store { members, prefix }, watcher));
        let limit = config.connect_timeout;
        let answer = tokio::time::timeout(limit, versions::check(&hub.store)).await;
        answer.map_err(|_| Failure::unavailable("no member answers in time"))??;
        let tasks = [
            tokio::spawn(watch::run(Arc::downgrade(&hub), commands)).abort_handle(),
            tokio::spawn(sweep::run(Arc::downgrade(&hub))).abort_handle(),
        ];
        Ok(Self { config, hub, tasks })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Backend for Etcd {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            shared: true,
            permits: true,
            fair: true,
            hand_off: true,
            detach: true,
            min_hold: true,
            many: true,
            downgrade: true,
            notes: true,
            networked: true,
            ..Capabilities::new("etcd")
        }
    }

    fn attach(&self, client: &ClientId) -> Events {
        self.hub.attach(client)
    }

    async fn acquire(&self, request: &Request) -> Result<Attempt, Failure> {
        attempt::acquire(&self.hub, request).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Vec<Result<Renewed, Failure>> {
        renewal::renew(&self.hub, renewals).await
    }

    async fn release(
        &self,
        name: &Name,
        owner: &Owner,
        min_hold: Option<Duration>,
    ) -> Result<Released, Failure> {
        release::release(&self.hub, name, owner, min_hold).await
    }

    async fn detach(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        renewal::detach(&self.hub, renewal).await
    }

    async fn acquire_all(&self, requests: &[Request]) -> Result<Option<Vec<Grant>>, Failure> {
        several::acquire_all(&self.hub, requests).await
    }

    async fn downgrade(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        renewal::downgrade(&self.hub, renewal).await
    }

    async fn annotate(&self, renewal: &Renewal, note: Option<&str>) -> Result<Renewed, Failure> {
        renewal::annotate(&self.hub, renewal, note).await
    }

    async fn inspect(&self, name: &Name) -> Result<Status, Failure> {
        look::inspect(&self.hub, name).await
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Page, Failure> {
        look::list(&self.hub, prefix, after).await
    }

    async fn force(&self, name: &Name, observed: &str) -> Result<bool, Failure> {
        release::force(&self.hub, name, observed).await
    }

    /// Reads, which takes a majority.
    async fn ping(&self) -> Result<(), Failure> {
        let key = self.hub.store.prefix.names("~").from;
        let nothing = RangeRequest {
            key,
            count_only: true,
            ..RangeRequest::default()
        };
        self.hub.store.range(&nothing).await?;
        Ok(())
    }

    fn clock(&self) -> Option<Clock> {
        None
    }

    #[cfg(unix)]
    fn session(&self) -> Option<std::os::fd::OwnedFd> {
        None
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Etcd").field(&self.config).finish()
    }
}
