//! Many ask at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::Barrier;

use crate::Nodes;

const CONTENDERS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn split_votes_resolve() {
    const ROUNDS: usize = 30;
    let nodes = Nodes::start(3);
    let start = Arc::new(Barrier::new(CONTENDERS));
    let mut tasks = Vec::new();
    for _ in 0..CONTENDERS {
        let client = nodes.client().await;
        let start = Arc::clone(&start);
        tasks.push(tokio::spawn(async move {
            let mut slowest = Duration::ZERO;
            for round in 0..ROUNDS {
                start.wait().await;
                let begun = Instant::now();
                // The first to have it proves that the split vote was resolved.
                let lock = client.lock(format!("split {round}"));
                let guard = lock.acquire_timeout(Duration::from_secs(30)).await.unwrap();
                slowest = slowest.max(begun.elapsed());
                guard.release().await.unwrap();
            }
            slowest
        }));
    }
    for task in tasks {
        let slowest = task.await.unwrap();
        assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_gets_a_share() {
    const EACH: Duration = Duration::from_secs(8);
    let nodes = Nodes::start(3);
    let (inside, total) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for _ in 0..CONTENDERS {
        let client = nodes.client().await;
        let (inside, total) = (Arc::clone(&inside), Arc::clone(&total));
        tasks.push(tokio::spawn(async move {
            let (begun, mut mine) = (Instant::now(), 0_u64);
            while begun.elapsed() < EACH {
                let guard = client.lock("shared out").acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold at once");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
                mine += 1;
            }
            total.fetch_add(mine, Ordering::SeqCst);
            mine
        }));
    }
    let mut shares = Vec::new();
    for task in tasks {
        shares.push(task.await.unwrap());
    }
    let fair = total.load(Ordering::SeqCst) / CONTENDERS as u64;
    eprintln!("shares {shares:?}, fair {fair}");
    let least = shares.iter().min().copied().unwrap();
    assert!(least * 4 >= fair, "{shares:?}");
}
