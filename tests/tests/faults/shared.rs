//! Readers and permit holders whose processes are killed, and what many of them cost.

use std::time::{Duration, Instant};

use leasehold::{Client, Guard};
use leasehold_testkit::servers::RedisServer;
use leasehold_tests::holder::{Holder, file_url};
use tempfile::tempdir;
use tokio::{task::JoinSet, time::sleep};

const HOLDER: &str = env!("CARGO_BIN_EXE_holder");
const TTL: Duration = Duration::from_secs(6);
/// Far more than anything takes that ends at all.
const LONG: Duration = Duration::from_secs(60);

fn holder(url: &str, name: &str, manner: &str) -> Holder {
    let ttl = TTL.as_millis().to_string();
    Holder::start(HOLDER, &[url, "hold", name, &ttl, manner])
}

async fn capacity_comes_back(url: &str) {
    let mut holders: Vec<Holder> = (0..3).map(|_| holder(url, "pool", "permit")).collect();
    for holder in &holders {
        holder.expect("held");
    }
    let client = Client::connect(url).await.expect("the store is there");
    let pool = client.semaphore("pool", 3).with_ttl(TTL);
    assert!(pool.try_acquire().await.expect("answered").is_none());
    holders.drain(..2).for_each(drop);
    let mut newcomers: Vec<Guard> = Vec::new();
    for _ in 0..2 {
        newcomers.push(
            pool.acquire_timeout(LONG)
                .await
                .expect("a permit is free again"),
        );
        let status = client.inspect("pool").await.expect("answered");
        assert!(status.holders.len() <= 3, "{status:?}");
    }
    assert!(
        pool.try_acquire().await.expect("answered").is_none(),
        "three are out again"
    );
    assert_eq!(
        client
            .inspect("pool")
            .await
            .expect("answered")
            .holders
            .len(),
        3
    );
}

#[tokio::test]
async fn b31_permits_of_killed_processes_come_back_at_a_file() {
    let home = tempdir().expect("a directory");
    capacity_comes_back(&file_url(home.path())).await;
}

#[tokio::test]
async fn b31_permits_of_killed_processes_come_back_at_a_server() {
    let server = RedisServer::start();
    capacity_comes_back(&server.url()).await;
}

#[tokio::test]
async fn b31_ten_thousand_semaphores_leave_nothing_but_counters() {
    let server = RedisServer::start();
    let client = Client::connect(&server.url())
        .await
        .expect("the server is there");
    let mut tasks = JoinSet::new();
    for task in 0..50 {
        let client = client.clone();
        tasks.spawn(async move {
            for number in 0..200 {
                let pool = client.semaphore(format!("pool/{task}/{number}"), 2);
                pool.acquire()
                    .await
                    .expect("free")
                    .release()
                    .await
                    .expect("held");
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic");
    }
    let keys = server.cli(&["KEYS", "*"]);
    let left: Vec<&str> = keys
        .lines()
        .filter(|key| !key.ends_with("~fence"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

async fn readers_pass_a_dead_writer(url: &str) {
    let client = Client::connect(url).await.expect("the store is there");
    let lock = client.rw_lock("config").with_ttl(TTL);
    let reads = lock.read().await.expect("free");
    let writer = holder(url, "config", "write");
    let begun = Instant::now();
    while lock.inspect().await.expect("answered").waiters.is_empty() {
        assert!(begun.elapsed() < LONG, "the writer never queued");
        sleep(Duration::from_millis(5)).await;
    }
    assert!(
        lock.try_read().await.expect("answered").is_none(),
        "a queued writer stops readers"
    );
    drop(writer);
    let joins = lock
        .read_timeout(LONG)
        .await
        .expect("the dead writer is passed");
    assert_eq!(
        joins.fencing_token(),
        reads.fencing_token(),
        "the first reader held throughout"
    );
    reads.check().expect("held");
}

#[tokio::test]
async fn b32_readers_pass_a_writer_that_was_killed_in_the_queue_at_a_file() {
    let home = tempdir().expect("a directory");
    readers_pass_a_dead_writer(&file_url(home.path())).await;
}

#[tokio::test]
async fn b32_readers_pass_a_writer_that_was_killed_in_the_queue_at_a_server() {
    let server = RedisServer::start();
    readers_pass_a_dead_writer(&server.url()).await;
}

/// How many scripts the server has run.
fn scripts_run(server: &RedisServer) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = stats.lines().filter_map(|line| {
        let (_, rest) = line.split_once("cmdstat_eval")?;
        rest.split_once("calls=")?
            .1
            .split(',')
            .next()?
            .parse::<u64>()
            .ok()
    });
    calls.sum()
}

#[tokio::test]
async fn b16_waiting_readers_ask_seldom() {
    const READERS: u64 = 20;
    let server = RedisServer::start();
    let client = Client::connect(&server.url())
        .await
        .expect("the server is there");
    let lock = client.rw_lock("config");
    let writes = lock.write().await.expect("free");
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let lock = lock.clone();
        readers.spawn(async move { lock.read_timeout(LONG).await.map(|guard| guard.is_held()) });
    }
    while lock.inspect().await.expect("answered").waiters.len() < 20 {
        sleep(Duration::from_millis(5)).await;
    }
    let (before, begun) = (scripts_run(&server), Instant::now());
    sleep(Duration::from_secs(4)).await;
    let (asked, seconds) = (scripts_run(&server) - before, begun.elapsed().as_secs_f64());
    let each = f64::from(u32::try_from(asked).expect("few")) / seconds / 20.0;
    assert!(each < 5.0, "{each} commands a second for each waiter");
    writes.release().await.expect("held");
    while let Some(reader) = readers.join_next().await {
        assert!(reader.expect("no panic").expect("let in together"));
    }
}
