//! Acquire and release on three servers that vote: all of them well, and one of them hung.

use std::time::{Duration, Instant};

use anyhow::Result;
use leasehold::Client;
use leasehold_testkit::servers::redis::RedisServer;

use crate::{SPAN, figures::Table};

/// What all is compared with.
pub(crate) const WELL: &str = "all nodes well";

/// Three servers and a client of them.
struct Ensemble {
    servers: Vec<RedisServer>,
    client: Client,
}

impl Ensemble {
    async fn start() -> Result<Self> {
        let start = |_| RedisServer::start_with(&["--save", "", "--appendonly", "no"]);
        let servers: Vec<RedisServer> = (0..3).map(start).collect();
        let addresses: Vec<String> = servers.iter().map(|it| it.address().to_string()).collect();
        let url = format!("redlock://{}?assume_fresh=1", addresses.join(","));
        let client = Client::connect(&url).await?;
        Ok(Self { servers, client })
    }

    /// How long it takes to have a lock that is then given up.
    async fn acquire(&self) -> Result<Duration> {
        let begun = Instant::now();
        let guard = self.client.lock("b:redlock").acquire().await?;
        let took = begun.elapsed();
        guard.release().await?;
        Ok(took)
    }
}

/// All rounds: each asks the two ensembles in turn, so that what else the machine does befalls
/// both.
pub(crate) async fn rounds(table: &mut Table, rounds: usize) -> Result<()> {
    let (well, hung) = (Ensemble::start().await?, Ensemble::start().await?);
    hung.servers[1].pause();
    for _ in 0..rounds {
        let (mut all, mut two) = (Vec::new(), Vec::new());
        let begun = Instant::now();
        while begun.elapsed() < SPAN {
            all.push(well.acquire().await?);
            two.push(hung.acquire().await?);
        }
        table.add(WELL, all);
        table.add("one node hung", two);
    }
    hung.servers[1].resume();
    Ok(())
}
