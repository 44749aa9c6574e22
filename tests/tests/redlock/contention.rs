//! Many ask at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold::Client;
use tokio::{sync::Barrier, task::JoinHandle};

use crate::{Nodes, is_deep, size};

const CONTENDERS: usize = 8;

/// Each contender is a client of its own, as if it were a process.
async fn contend<T, F>(nodes: &Nodes, each: impl Fn(Client) -> F + Send + Sync) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut tasks: Vec<JoinHandle<T>> = Vec::new();
    for _ in 0..CONTENDERS {
        tasks.push(tokio::spawn(each(nodes.client().await)));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.push(task.await.unwrap());
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn split_votes_resolve() {
    let rounds = size(30, 1_000);
    let nodes = Nodes::start(3);
    let start = Arc::new(Barrier::new(CONTENDERS));
    let all = contend(&nodes, |client| {
        let start = Arc::clone(&start);
        async move {
            let mut spans = Vec::new();
            for round in 0..rounds {
                start.wait().await;
                let begun = Instant::now();
                let lock = client.lock(format!("split {round}"));
                let guard = lock.acquire_timeout(Duration::from_secs(60)).await.unwrap();
                spans.push(begun.elapsed());
                guard.release().await.unwrap();
            }
            spans
        }
    });
    let all = all.await;
    // The first to have it proves that the split vote was resolved.
    let first = |round: usize| all.iter().map(|spans| spans[round]).min().unwrap();
    let mut resolved: Vec<Duration> = (0..rounds).map(first).collect();
    resolved.sort_unstable();
    let (median, slowest) = (resolved[rounds / 2], resolved[rounds - 1]);
    eprintln!("{rounds} split votes: resolved within {median:.1?} (median), {slowest:.1?} (most)");
    let limit = if is_deep() { 5 } else { 30 };
    assert!(slowest < Duration::from_secs(limit), "{slowest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_gets_a_share() {
    let total = size(400, 10_000) as u64;
    let nodes = Nodes::start(3);
    let (inside, given) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let start = Arc::new(Barrier::new(CONTENDERS));
    let begun = Instant::now();
    let waits = contend(&nodes, |client| {
        let (inside, given) = (Arc::clone(&inside), Arc::clone(&given));
        let start = Arc::clone(&start);
        async move {
            let mut waits = Vec::new();
            start.wait().await;
            while given.load(Ordering::SeqCst) < total {
                let asked = Instant::now();
                let guard = client.lock("shared out").acquire().await.unwrap();
                waits.push(asked.elapsed());
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold at once");
                given.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
            waits
        }
    });
    let waits = waits.await;
    let rate = total as f64 / begun.elapsed().as_secs_f64();
    let shares: Vec<usize> = waits.iter().map(Vec::len).collect();
    let mut waits = waits.concat();
    waits.sort_unstable();
    let (median, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    let calls = nodes.calls() as f64 / waits.len() as f64;
    eprintln!(
        "{total} acquisitions, {rate:.0}/s, shares {shares:?}, {calls:.1} calls each, \
         waits {median:.1?} (median), {longest:.1?} (most)"
    );
    let fair = waits.len() / CONTENDERS;
    let least = shares.iter().min().copied().unwrap();
    assert!(least * 4 >= fair, "{shares:?}");
    if is_deep() {
        assert!(longest <= median * 50, "{longest:?} against {median:?}");
    }
}

/// In a crowd one node is asked before the others. What is left there of an attempt that failed
/// keeps nobody out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rest_on_the_node_that_is_asked_first_keeps_nobody_out() {
    let nodes = Nodes::start(3);
    nodes.0.0[0].cli(&["SET", "lock:rest", "another's", "PX", "600000"]);
    let all = contend(&nodes, |client| async move {
        for _ in 0..3 {
            let lock = client.lock("rest");
            let guard = lock.acquire_timeout(Duration::from_secs(60)).await.unwrap();
            guard.release().await.unwrap();
        }
    });
    all.await;
    assert_eq!(nodes.values("rest")[0], "another's");
}
