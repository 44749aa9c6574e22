//! The stores that the conformance suite runs on, one per backend.

use leasehold::backend::{file, memory, redis};
use leasehold_testkit::{conformance::Topology, servers::redis::RedisServer};

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
