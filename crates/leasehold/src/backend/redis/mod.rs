#![doc = include_str!("README.md")]

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold_core::{
    Attempt, ClientId, Grant, Name, Owner, Released, Renewal, Renewed, Request, Status,
};

pub use self::{
    config::Config,
    dial::{Dialed, Stream},
    keys::{Keys, Prefix},
    node::RedisNode,
    script::{Script, scripts},
};
use self::{
    connection::Connection,
    link::Link,
    push::Router,
    script::{ACQUIRE, Call, FORCE, INSPECT, RELEASE},
};
use super::{Backend, Capabilities, Events, Failure, Page};
use crate::clock::Clock;

mod config;
mod connection;
mod dial;
mod failure;
mod form;
mod handshake;
mod keys;
mod link;
mod list;
mod node;
mod push;
mod renew;
mod reply;
mod script;
mod several;
mod slot;
mod state;
mod tls;
mod url;

/// Locks on one Redis or Valkey server.
pub struct Redis {
    config: Config,
    connection: Connection,
    router: Arc<Router>,
    /// Whether it was said that the clocks differ; once is enough.
    clocks_differ: AtomicBool,
}

impl Redis {
    /// Connects to the server that `config` describes, and checks that it can carry locks.
    ///
    /// From then on the connection mends itself.
    ///
    /// # Errors
    ///
    /// Within the connect timeout, and nothing was changed:
    /// [`Invalid`](crate::ErrorKind::Invalid) for a configuration that cannot be,
    /// [`Denied`](crate::ErrorKind::Denied) when password or rights are missing,
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when nobody answers or a replica does,
    /// [`Protocol`](crate::ErrorKind::Protocol) when it is no Redis,
    /// [`Unsupported`](crate::ErrorKind::Unsupported) when it is too old or part of a cluster.
    ///
    /// # Cancel safety
    ///
    /// Safe: the connection is closed.
    pub async fn connect(config: Config) -> Result<Self, Failure> {
        let router = Arc::new(Router::new(config.prefix().clone()));
        let connection = Connection::open(config.clone(), Arc::clone(&router)).await?;
        Ok(Self {
            config,
            connection,
            router,
            clocks_differ: AtomicBool::new(false),
        })
    }

    fn prefix(&self) -> &Prefix {
        self.config.prefix()
    }

    fn keys(&self, name: &Name) -> Keys {
        Keys::new(self.prefix(), name)
    }

    /// Sees to it that `client` hears of hand-offs, before anything can be handed to it. The
    /// channel, or nothing when it cannot listen.
    async fn channel(&self, link: &Link, client: &ClientId) -> Result<String, Failure> {
        let channel = self.prefix().channel(client);
        let heard = self.router.listen(&channel) && link.subscribe(&channel).await?;
        Ok(if heard { channel } else { String::new() })
    }

    /// A holder that never waited is told of a forced release too, but need not wait for that.
    fn listen_behind(&self, link: Arc<Link>, client: &ClientId) {
        let channel = self.prefix().channel(client);
        if self.router.listen(&channel) {
            tokio::spawn(async move { link.subscribe(&channel).await });
        }
    }

    /// Nothing depends on equal clocks but the order of fencing tokens after a loss of data.
    fn compare_clocks(&self, server_millis: u64) {
        const TOLERATED: u64 = 5000;
        let here = self.config.clock.wall_micros() / 1000;
        let off = here.abs_diff(server_millis);
        if off > TOLERATED && !self.clocks_differ.swap(true, Ordering::Relaxed) {
            let off = Duration::from_millis(off);
            tracing::warn!(?off, "the server's clock and this machine's differ");
        }
    }

    /// The call of acquire.lua for `request`.
    fn acquire_call(&self, request: &Request, channel: &str) -> Call {
        let wait = request.wait.as_ref();
        let call = Call::new(&ACQUIRE, self.keys(&request.name).for_acquire());
        several::with_demand(call, request)
            .number(wait.is_some().into())
            .arg(channel)
            .number(wait.map_or(0, |wait| form::millis(Some(wait.patience))))
            .number(wait.and_then(|wait| wait.ticket).unwrap_or(0))
            .number(wait.map_or(0, |wait| wait.seq.into()))
    }
}

impl Backend for Redis {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new("redis");
        capabilities.shared = true;
        capabilities.permits = true;
        capabilities.fair = true;
        capabilities.tickets = true;
        capabilities.hand_off = true;
        capabilities.detach = true;
        capabilities.min_hold = true;
        capabilities.many = true;
        capabilities.downgrade = true;
        capabilities.notes = true;
        capabilities.networked = true;
        capabilities
    }

    fn attach(&self, client: &ClientId) -> Events {
        self.router.attach(client)
    }

    async fn acquire(&self, request: &Request) -> Result<Attempt, Failure> {
        let link = self.connection.link().await?;
        let client = request.owner.client();
        let channel = match request.wait {
            Some(_) => self.channel(&link, &client).await?,
            None => String::new(),
        };
        let reply = link.run(&self.acquire_call(request, &channel)).await?;
        let (attempt, now) = reply::attempt(&reply, request)?;
        if let Some(now) = now {
            self.compare_clocks(now);
        }
        if matches!(attempt, Attempt::Granted(_)) && request.wait.is_none() {
            self.listen_behind(link, &client);
        }
        Ok(attempt)
    }

    async fn renew(&self, renewals: &[Renewal]) -> Vec<Result<Renewed, Failure>> {
        self.renew_in_batches(renewals).await
    }

    async fn release(
        &self,
        name: &Name,
        owner: &Owner,
        min_hold: Option<Duration>,
    ) -> Result<Released, Failure> {
        // A queue of dead waiters is passed in steps, so that no single call takes long.
        const STEPS: usize = 100;
        let call = Call::new(&RELEASE, self.keys(name).all())
            .arg(owner.as_str())
            .number(form::millis(min_hold));
        let link = self.connection.link().await?;
        let (released, mut left) = reply::released(&link.run(&call).await?)?;
        for _ in 0..STEPS {
            match left.as_deref() {
                None => break,
                Some("spent") => match link.run(&call).await {
                    Ok(reply) => left = reply::released(&reply)?.1,
                    Err(_) => break,
                },
                Some(reason) => {
                    tracing::warn!(reason, "released, but the next waiter could not be told");
                    break;
                }
            }
        }
        Ok(released)
    }

    async fn detach(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        // No lease hangs on a connection, so there is nothing else to do.
        let mut renewed = self.renew_in_batches(std::slice::from_ref(renewal)).await;
        renewed.pop().unwrap_or(Ok(Renewed::Missing))
    }

    async fn acquire_all(&self, requests: &[Request]) -> Result<Option<Vec<Grant>>, Failure> {
        self.take_all(requests).await
    }

    async fn downgrade(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        self.become_reader(renewal).await
    }

    async fn annotate(&self, renewal: &Renewal, note: Option<&str>) -> Result<Renewed, Failure> {
        self.set_note(renewal, note).await
    }

    async fn inspect(&self, name: &Name) -> Result<Status, Failure> {
        let call = Call::new(&INSPECT, self.keys(name).all());
        let reply = self.connection.link().await?.run(&call).await?;
        Ok(reply::status(&reply, name.as_str())?.0)
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Page, Failure> {
        self.page(prefix, after).await
    }

    async fn force(&self, name: &Name, observed: &str) -> Result<bool, Failure> {
        let victim = Owner::parse(observed).ok();
        let channel = victim.map(|owner| self.prefix().channel(&owner.client()));
        let call = Call::new(&FORCE, self.keys(name).all())
            .arg(form::bytes(observed))
            .arg(channel.unwrap_or_default());
        let reply = self.connection.link().await?.run(&call).await?;
        match reply::number(&reply) {
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            _ => Err(failure::garbage(&format!("force: {reply:?}"))),
        }
    }

    async fn ping(&self) -> Result<(), Failure> {
        let link = self.connection.link().await?;
        link.ask(&redis::cmd("PING")).await?;
        Ok(())
    }

    fn clock(&self) -> Option<Clock> {
        Some(self.config.clock.clone())
    }

    #[cfg(unix)]
    fn session(&self) -> Option<std::os::fd::OwnedFd> {
        None
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis").field(&self.config).finish()
    }
}
