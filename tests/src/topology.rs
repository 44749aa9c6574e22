//! The stores that the conformance suite runs on, one per backend.

use std::sync::Arc;

use leasehold::backend::{etcd, file, memory, node::Node, redis, redlock, zookeeper};
use leasehold_testkit::{conformance::Topology, servers::redis::RedisServer};

pub mod shared;

/// The memory store, in paused time.
#[derive(Debug)]
pub struct Memory(memory::Memory);

impl Topology for Memory {
    type Backend = memory::Memory;

    const VIRTUAL: bool = true;

    async fn start() -> Self {
        Self(memory::Memory::new())
    }

    async fn connect(&self) -> Self::Backend {
        self.0.clone()
    }
}

/// The file store, each handle being a process to the others.
#[derive(Debug)]
pub struct File(tempfile::TempDir);

impl Topology for File {
    type Backend = file::File;

    async fn start() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    async fn connect(&self) -> Self::Backend {
        let config = file::Config::new(self.0.path().join("locks.db"));
        file::File::open(config).await.expect("a new file")
    }
}

/// One Redis server.
#[derive(Debug)]
pub struct Redis(RedisServer);

impl Topology for Redis {
    type Backend = redis::Redis;

    async fn start() -> Self {
        Self(RedisServer::start())
    }

    async fn connect(&self) -> Self::Backend {
        let config = redis::Config::from_url(&self.0.url()).expect("the URL of a server");
        redis::Redis::connect(config)
            .await
            .expect("a server that runs")
    }
}

/// Three Redis servers that vote.
#[derive(Debug)]
#[allow(clippy::exhaustive_structs)] // tests stop and start its servers
pub struct Redlock(pub Vec<RedisServer>);

impl Redlock {
    /// So many servers.
    #[must_use]
    pub fn of(nodes: usize) -> Self {
        Self((0..nodes).map(|_| RedisServer::start()).collect())
    }

    /// Nodes that begin to connect to the servers.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[must_use]
    pub fn nodes(&self) -> Vec<Arc<dyn Node>> {
        let node = |server: &RedisServer| -> Arc<dyn Node> {
            let config = redis::Config::from_url(&server.url()).expect("the URL of a server");
            Arc::new(redis::RedisNode::start(config))
        };
        self.0.iter().map(node).collect()
    }

    /// Where they are, as a URL: servers that have just been started for the first time.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.0.iter().map(|it| it.address().to_string()).collect();
        format!("redlock://{}?assume_fresh=1", addresses.join(","))
    }
}

impl Topology for Redlock {
    type Backend = redlock::Redlock;

    async fn start() -> Self {
        Self::of(3)
    }

    async fn connect(&self) -> Self::Backend {
        let settings = redlock::Settings::new()
            .with_assume_fresh(true)
            .with_max_ttl(std::time::Duration::from_secs(600));
        redlock::Redlock::connect(self.nodes(), settings)
            .await
            .expect("servers that run")
    }
}

/// An etcd that all cases share, each under a prefix of its own.
#[derive(Debug)]
pub struct Etcd(etcd::Config);

impl Topology for Etcd {
    type Backend = etcd::Etcd;

    async fn start() -> Self {
        let (cluster, prefix) = shared::etcd();
        let config = etcd::Config::from_url(&cluster.url()).expect("the URL of a cluster");
        Self(config.with_prefix(&prefix).expect("a prefix"))
    }

    async fn connect(&self) -> Self::Backend {
        etcd::Etcd::connect(self.0.clone())
            .await
            .expect("members that run")
    }
}

/// A ZooKeeper that all cases share, each under a prefix of its own.
#[derive(Debug)]
pub struct ZooKeeper(String);

impl Topology for ZooKeeper {
    type Backend = zookeeper::ZooKeeper;

    async fn start() -> Self {
        let (servers, prefix) = shared::zookeeper();
        // Leases of some cases are long; what is left of a session must be longer.
        let options = "session_timeout=300s&sync_window=5s";
        Self(format!("{}/?{options}&prefix={prefix}", servers.url()))
    }

    async fn connect(&self) -> Self::Backend {
        let config = zookeeper::Config::from_url(&self.0).expect("the URL of a server");
        zookeeper::ZooKeeper::connect(config)
            .await
            .expect("a server that runs")
    }
}
