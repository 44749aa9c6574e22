//! How long locks take on one Redis server, as ratios against the raw round trip; and on three that
//! vote, as the ratio of one being hung to all being well.
//!
//! Every round measures every subject once, one after another, so that a machine that is busy at
//! times is busy for all of them. What counts is the median over the rounds of each round's ratio.
//!
//! `cargo run --release -p leasehold-bench [-- ROUNDS]`, or `cargo xtask bench`.

#![allow(clippy::print_stdout, clippy::disallowed_methods)] // a report, and a stopwatch

use std::time::Duration;

use anyhow::Result;
use leasehold_testkit::servers::redis::RedisServer;

mod figures;
mod hand_off;
mod raw;
mod redlock;
mod uncontended;

use figures::Table;

const DEFAULT_ROUNDS: usize = 7;

#[tokio::main]
async fn main() -> Result<()> {
    let rounds = std::env::args()
        .nth(1)
        .and_then(|it| it.parse().ok())
        .unwrap_or(DEFAULT_ROUNDS);
    let server = RedisServer::start_with(&["--save", "", "--appendonly", "no"]);
    let address = server
        .url()
        .trim_start_matches("redis://")
        .trim_end_matches('/')
        .to_owned();

    let mut table = Table::new("acquire + release, one task, nobody else: p50", "raw");
    for _ in 0..rounds {
        uncontended::round(&mut table, &address, &server.url()).await?;
    }
    println!("{table}");

    for waiters in [2, 8, 64] {
        let title = format!("hand-off to a blocked waiter, {waiters} waiters: p50");
        let mut table = Table::new(&title, "raw grant");
        for _ in 0..rounds {
            hand_off::round(&mut table, &address, &server.url(), waiters).await?;
        }
        println!("{table}");
    }

    let mut table = Table::new("acquire on three servers that vote: p50", redlock::WELL);
    redlock::rounds(&mut table, rounds).await?;
    println!("{table}");
    Ok(())
}

/// How long one subject is measured in one round.
const SPAN: Duration = Duration::from_millis(700);
