//! What befalls stores of several servers that vote among themselves, whichever store it is.
//!
//! The scenarios are functions over a [`Cluster`]; the stores' tests call them.

#![allow(clippy::missing_panics_doc)] // that is how a test tells
#![allow(clippy::disallowed_methods)] // tests may read the clock and sleep
#![allow(clippy::print_stderr)] // what a test measured
#![allow(clippy::future_not_send)] // a process on a leash is for one test alone

use std::{net::SocketAddr, time::Duration};

use leasehold::{Client, Lock, Status};
use leasehold_testkit::{
    proxy::Proxy,
    servers::{EtcdCluster, ZooKeeperEnsemble},
};
use tokio::time::{Instant, sleep};

pub mod chaos;
pub mod clients;
pub mod leading;
pub mod outage;
pub mod waiting;

/// Far more than anything takes that ends at all.
pub const LONG: Duration = Duration::from_secs(60);

/// Servers that are one store. What is done to one of them is done by its number.
#[allow(missing_docs)] // as on the servers themselves
pub trait Cluster: Send + Sync {
    /// How long a holder that died blocks others, in tests that wait for it.
    const TTL: Duration;

    /// Whether one that is isolated has no vote either. Otherwise a leader that is isolated may be
    /// elected again and again, by others that then cannot reach it.
    const VOTES_ARE_CUT: bool;

    fn size(&self) -> usize;
    fn address(&self, server: usize) -> SocketAddr;
    fn leader(&self) -> usize;
    fn pause(&self, server: usize);
    fn resume(&self, server: usize);
    fn kill(&mut self, server: usize);
    fn restart(&mut self, server: usize);
    fn isolate(&self, server: usize);
    fn heal(&self);

    /// Whether all servers serve together now.
    fn is_whole(&self) -> bool;

    /// The URL of a client that reaches the servers at these addresses; `ttl` for a store whose
    /// sessions all live equally long.
    fn url_of(&self, addresses: &[SocketAddr], ttl: Duration) -> String;

    /// How many entries of a name the store has: holders and waiters.
    fn entries(&self, name: &str) -> usize;
}

impl Cluster for EtcdCluster {
    const TTL: Duration = Duration::from_secs(2);
    const VOTES_ARE_CUT: bool = true;

    fn size(&self) -> usize {
        self.addresses().count()
    }

    fn url_of(&self, addresses: &[SocketAddr], _: Duration) -> String {
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        format!("etcd://{}", addresses.join(","))
    }

    fn entries(&self, name: &str) -> usize {
        self.keys(&format!("lock/{name}/")).len()
    }

    fn address(&self, server: usize) -> SocketAddr {
        self.address(server)
    }

    fn leader(&self) -> usize {
        self.leader()
    }

    fn pause(&self, server: usize) {
        self.pause(server);
    }

    fn resume(&self, server: usize) {
        self.resume(server);
    }

    fn kill(&mut self, server: usize) {
        self.kill(server);
    }

    fn restart(&mut self, server: usize) {
        self.restart(server);
    }

    fn isolate(&self, server: usize) {
        self.isolate(server);
    }

    fn heal(&self) {
        self.heal();
    }

    fn is_whole(&self) -> bool {
        (0..self.size()).all(|member| self.is_ready(member))
    }
}

impl Cluster for ZooKeeperEnsemble {
    const TTL: Duration = Duration::from_secs(4);
    const VOTES_ARE_CUT: bool = false;

    fn size(&self) -> usize {
        self.addresses().count()
    }

    fn url_of(&self, addresses: &[SocketAddr], ttl: Duration) -> String {
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let (session, window) = (ttl.as_millis(), self.sync_window().as_millis());
        format!(
            "zookeeper://{}?session_timeout={session}ms&sync_window={window}ms",
            addresses.join(",")
        )
    }

    fn entries(&self, name: &str) -> usize {
        let said = self.ask(self.leader(), "dump").expect("a leader answers");
        let path = format!("/locks/{name}/");
        said.lines().filter(|line| line.contains(&path)).count()
    }

    fn address(&self, server: usize) -> SocketAddr {
        self.address(server)
    }

    fn leader(&self) -> usize {
        self.leader()
    }

    fn pause(&self, server: usize) {
        self.pause(server);
    }

    fn resume(&self, server: usize) {
        self.resume(server);
    }

    fn kill(&mut self, server: usize) {
        self.kill(server);
    }

    fn restart(&mut self, server: usize) {
        self.restart(server);
    }

    fn isolate(&self, server: usize) {
        self.isolate(server);
    }

    fn heal(&self) {
        self.heal();
    }

    fn is_whole(&self) -> bool {
        // One that led before it stood still says so until it hears of the other.
        let said = (0..self.size()).map(|at| self.ask(at, "srvr").unwrap_or_default());
        let said: Vec<String> = said.collect();
        let lead = said.iter().filter(|said| said.contains("Mode: leader"));
        lead.count() == 1 && said.iter().all(|said| said.contains("Mode: "))
    }
}

/// A store, a way to each of its servers that misbehaves, a client behind these, and one that is
/// spared.
#[derive(Debug)]
#[allow(clippy::exhaustive_structs)] // taken apart by tests
pub struct Site<C> {
    /// The store.
    pub cluster: C,
    /// The ways to its servers.
    pub proxies: Vec<Proxy>,
    /// Behind the proxies.
    pub client: Client,
    /// Not behind them.
    pub spared: Client,
    /// How long what nobody renews lasts.
    pub ttl: Duration,
}

impl<C: Cluster> Site<C> {
    /// A site at this store, where what nobody renews ends soon.
    pub async fn new(cluster: C) -> Self {
        Self::with_ttl(cluster, C::TTL).await
    }

    /// A site at this store.
    pub async fn with_ttl(cluster: C, ttl: Duration) -> Self {
        let mut proxies = Vec::new();
        for server in 0..cluster.size() {
            proxies.push(Proxy::start(cluster.address(server)).await);
        }
        let behind: Vec<_> = proxies.iter().map(Proxy::address).collect();
        let straight: Vec<_> = (0..cluster.size()).map(|at| cluster.address(at)).collect();
        let client = connect(&cluster.url_of(&behind, ttl)).await;
        let spared = connect(&cluster.url_of(&straight, ttl)).await;
        Self {
            cluster,
            proxies,
            client,
            spared,
            ttl,
        }
    }

    /// Does something to every way to a server.
    pub fn ways(&self, act: impl FnMut(&Proxy)) {
        self.proxies.iter().for_each(act);
    }

    /// The spared client's URL.
    #[must_use]
    pub fn url(&self) -> String {
        let servers = 0..self.cluster.size();
        let straight: Vec<_> = servers.map(|at| self.cluster.address(at)).collect();
        self.cluster.url_of(&straight, self.ttl)
    }

    /// The lock `name` of the client behind the proxies, with the store's TTL for tests.
    pub fn lock(&self, name: &str) -> Lock {
        self.client.lock(name).with_ttl(self.ttl)
    }

    /// The same of the spared client.
    pub fn spared_lock(&self, name: &str) -> Lock {
        self.spared.lock(name).with_ttl(self.ttl)
    }

    /// Waits until the store has so many entries of a name.
    pub async fn until_entries(&self, name: &str, count: usize) {
        let begun = Instant::now();
        loop {
            let entries = self.cluster.entries(name);
            if entries == count {
                return;
            }
            assert!(begun.elapsed() < LONG, "{entries} of {name}, not {count}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a status of a name is as wanted.
    pub async fn until_status(&self, name: &str, wanted: impl Fn(&Status) -> bool) {
        let begun = Instant::now();
        loop {
            let status = self.spared.inspect(name).await;
            if status.as_ref().is_ok_and(&wanted) {
                return;
            }
            assert!(begun.elapsed() < LONG, "{name}: {status:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the spared client has had the lock, and sees that nothing is left of it.
    pub async fn comes_free(&self, name: &str) {
        let guard = self.spared_lock(name).acquire_timeout(LONG).await;
        guard.expect("it comes free").release().await.expect("ours");
        self.until_entries(name, 0).await;
        self.until_status(name, |it| it.is_free() && it.waiters.is_empty())
            .await;
    }
}

async fn connect(url: &str) -> Client {
    let builder = Client::builder().call_timeout(Duration::from_millis(500));
    builder.connect(url).await.expect("the servers run")
}
