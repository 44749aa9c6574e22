//! How long waiting takes, what it costs, and what validity it leaves.

use std::time::{Duration, Instant};

use leasehold::{Client, ErrorKind, Renew};
use leasehold_testkit::{proxy::Proxy, servers::RedisServer};

use crate::{Nodes, until};

/// How many commands the server has carried out, without those that a test gives.
fn calls(server: &RedisServer) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let line = stats
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    let digits = line.and_then(|rest| rest.split(',').next());
    digits.map_or(0, |digits| digits.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b07_validity_counts_from_the_attempt_that_won() {
    let nodes = Nodes::start(3);
    let (one, two) = (nodes.client().await, nodes.client().await);
    let ttl = Duration::from_secs(5);
    let first = one.lock("validity").with_ttl(ttl).acquire().await.unwrap();
    let waiter = tokio::spawn(async move {
        let lock = two.lock("validity").with_ttl(ttl).with_renew(Renew::Never);
        let guard = lock.acquire().await.unwrap();
        let left = guard.remaining();
        (guard, left)
    });
    tokio::time::sleep(ttl * 6 / 5).await;
    first.release().await.unwrap();
    let (guard, left) = waiter.await.unwrap();
    assert!(left > ttl / 20 && left <= ttl * 99 / 100, "{left:?}");
    drop(guard);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b07_a_lock_that_comes_too_late_is_given_back() {
    let nodes = Nodes::start(3);
    let mut proxies = Vec::new();
    for server in &nodes.0.0 {
        proxies.push(Proxy::start(server.address()).await);
    }
    let addresses: Vec<String> = proxies.iter().map(|it| it.address().to_string()).collect();
    let url = format!("redlock://{}?assume_fresh=1", addresses.join(","));
    let client = Client::connect(&url).await.unwrap();
    proxies
        .iter()
        .for_each(|proxy| proxy.delay(Duration::from_millis(200)));
    let lock = client.lock("late").with_ttl(Duration::from_millis(300));
    let error = lock.try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    until("nothing is left", async || {
        nodes.values("late").iter().all(|value| value == "(nil)")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b16_waiters_do_not_storm_the_nodes() {
    const WAITERS: u64 = 20;
    const SPAN: Duration = Duration::from_secs(4);
    let nodes = Nodes::start(3);
    let client = nodes.client().await;
    let guard = client.lock("held").acquire().await.unwrap();
    let waiting = nodes.client().await;
    let mut tasks = Vec::new();
    for _ in 0..WAITERS {
        let lock = waiting.lock("held");
        tasks.push(tokio::spawn(async move {
            let begun = Instant::now();
            let error = lock.acquire_timeout(SPAN).await.unwrap_err();
            (begun.elapsed(), error.kind())
        }));
    }
    for task in tasks {
        let (waited, kind) = task.await.unwrap();
        assert_eq!(kind, ErrorKind::Timeout);
        assert!(waited >= SPAN, "{waited:?}");
    }
    for server in &nodes.0.0 {
        let each = calls(server) / WAITERS / SPAN.as_secs();
        assert!(each <= 20, "{each} calls per second and waiter");
    }
    guard.release().await.unwrap();
}
