//! Locks on a majority of real servers.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_methods)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold::{
    Client,
    backend::{
        node::Node,
        redis::{Config, RedisNode},
        redlock::{Redlock, Settings},
    },
};
use leasehold_testkit::servers::RedisServer;
use leasehold_tests::topology;

mod chaos;
mod contention;
mod forgetting;
mod log;
mod minority;
mod modes;
mod permits;
mod refused;
mod renewing;
mod several;
mod tokens;
mod waiting;

/// Some servers, and how to reach them together.
struct Nodes(topology::Redlock);

impl Nodes {
    fn start(count: usize) -> Self {
        Self(topology::Redlock::of(count))
    }

    fn server(&mut self, at: usize) -> &mut RedisServer {
        &mut self.0.0[at]
    }

    /// A client of all nodes, which have just been started for the first time.
    async fn client(&self) -> Client {
        Client::connect(&self.0.url()).await.unwrap()
    }

    /// A store with a `max_ttl` of its own.
    async fn store(&self, max_ttl: Duration) -> Redlock {
        let settings = Settings::new()
            .with_assume_fresh(true)
            .with_max_ttl(max_ttl);
        Redlock::connect(self.0.nodes(), settings).await.unwrap()
    }

    /// How many scripts the nodes have run.
    fn calls(&self) -> u64 {
        let of = |server: &RedisServer| {
            let stats = server.cli(&["INFO", "commandstats"]);
            let calls = |line: &str| {
                line.strip_prefix("cmdstat_evalsha:calls=")?
                    .split(',')
                    .next()?
                    .parse()
                    .ok()
            };
            stats.lines().find_map(calls).unwrap_or(0_u64)
        };
        self.0.0.iter().map(of).sum()
    }

    /// What each node has under the name's key.
    fn values(&self, name: &str) -> Vec<String> {
        let key = format!("lock:{name}");
        let get = |server: &RedisServer| server.try_cli(&["GET", &key]).unwrap_or_default();
        self.0.0.iter().map(get).collect()
    }
}

/// A node at this address.
fn node(address: &str) -> Arc<dyn Node> {
    let config = Config::from_url(&format!("redis://{address}")).unwrap();
    Arc::new(RedisNode::start(config))
}

/// Waits until it is so, for a minute at most.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(60), "not: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether longer runs are wanted.
fn is_deep() -> bool {
    std::env::var_os("LEASEHOLD_DEEP").is_some()
}

/// How much of something is done, normally and in the deep tier.
fn size(normal: usize, deep: usize) -> usize {
    if is_deep() { deep } else { normal }
}
