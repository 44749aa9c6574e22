//! Acquire and release again and again, nobody else being there.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use leasehold::{Client, backend::redis::scripts};

use crate::{SPAN, figures::Table, raw::Raw};

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// The keys and words with which the scripts of this library take and release a lock.
const KEYS: [&str; 5] = [
    "b:own",
    "b{1}~fence",
    "b{1}~queue:own",
    "b{1}~waiters:own",
    "b{1}~held:own",
];
const OWNER: &str = "0123456789abcdefghjkmnpqrs;0123456789abc;bench/1;;";
const TERMS: [&str; 10] = ["x", "0", "1", "30000", "0", "0", "", "9000", "0", "0"];

pub(crate) async fn round(table: &mut Table, address: &str, url: &str) -> Result<()> {
    table.add("raw", raw(address)?);
    table.add("redis-rs, the same scripts", bare(url).await?);
    table.add("leasehold", leasehold(url).await?);
    table.add("rslock", rslock(url).await?);
    Ok(())
}

/// `SET NX PX` and a compare-and-delete on a plain socket: no fencing token.
fn raw(address: &str) -> Result<Vec<Duration>> {
    let mut raw = Raw::connect(address)?;
    let sha = raw.call(&["SCRIPT", "LOAD", COMPARE_AND_DELETE])?;
    let mut samples = Vec::new();
    let began = Instant::now();
    while began.elapsed() < SPAN {
        let start = Instant::now();
        let set = raw.call(&["SET", "b:raw", "0123456789abcdef", "NX", "PX", "30000"])?;
        let deleted = raw.call(&["EVALSHA", &sha, "1", "b:raw", "0123456789abcdef"])?;
        samples.push(start.elapsed());
        ensure!(set == "OK" && deleted == "1", "{set} {deleted}");
    }
    Ok(samples)
}

/// This library's scripts called by the client library alone: what a guard may add to.
async fn bare(url: &str) -> Result<Vec<Duration>> {
    let mut connection = redis::Client::open(url)?
        .get_multiplexed_async_connection()
        .await?;
    for script in scripts() {
        let _: String = redis::cmd("SCRIPT")
            .arg("LOAD")
            .arg(script.text())
            .query_async(&mut connection)
            .await?;
    }
    let named = |name| {
        scripts()
            .into_iter()
            .find(|it| it.name() == name)
            .map(|it| it.sha())
    };
    let (acquire, release) = (named("acquire"), named("release"));
    let mut samples = Vec::new();
    let began = Instant::now();
    while began.elapsed() < SPAN {
        let start = Instant::now();
        let _: String = redis::cmd("EVALSHA")
            .arg(acquire)
            .arg(5)
            .arg(&KEYS)
            .arg(OWNER)
            .arg(&TERMS)
            .query_async(&mut connection)
            .await?;
        let released: i64 = redis::cmd("EVALSHA")
            .arg(release)
            .arg(5)
            .arg(&KEYS)
            .arg(OWNER)
            .arg("0")
            .query_async(&mut connection)
            .await?;
        samples.push(start.elapsed());
        ensure!(released == 1, "not released: {released}");
    }
    Ok(samples)
}

async fn leasehold(url: &str) -> Result<Vec<Duration>> {
    let lock = Client::connect(url).await?.lock("bench");
    let mut samples = Vec::new();
    let began = Instant::now();
    while began.elapsed() < SPAN {
        let start = Instant::now();
        lock.acquire().await?.release().await?;
        samples.push(start.elapsed());
    }
    Ok(samples)
}

async fn rslock(url: &str) -> Result<Vec<Duration>> {
    let manager = rslock::LockManager::new(vec![url.to_owned()]);
    let mut samples = Vec::new();
    let began = Instant::now();
    while began.elapsed() < SPAN {
        let start = Instant::now();
        let lock = manager
            .lock(b"b:rslock", Duration::from_secs(30))
            .await
            .map_err(|error| anyhow::anyhow!("rslock: {error:?}"))?;
        manager.unlock(&lock).await;
        samples.push(start.elapsed());
    }
    Ok(samples)
}
