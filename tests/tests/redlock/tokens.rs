//! Fencing tokens, while keys vanish at any time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{Nodes, log::Log};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fencing_tokens_are_unique_and_in_order_even_while_locks_vanish() {
    let nodes = Nodes::start(3);
    let log: Arc<Log> = Arc::default();
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let client = nodes.client().await;
        let (log, stop) = (Arc::clone(&log), Arc::clone(&stop));
        tasks.push(tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let asked = Instant::now();
                let lock = client.lock("vanishing").with_ttl(Duration::from_secs(1));
                if let Ok(guard) = lock.acquire_timeout(Duration::from_secs(5)).await {
                    log.hold(asked, guard, Duration::ZERO).await;
                }
            }
        }));
    }
    let begun = Instant::now();
    let mut rounds = 0;
    while begun.elapsed() < Duration::from_secs(6) || log.len() < 100 {
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", log.len());
        rounds += 1;
        nodes.0.0[rounds % 3].cli(&["DEL", "lock:vanishing"]);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    stop.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    eprintln!("{} acquisitions, {rounds} deletions", log.len());
    log.check_order();
}
