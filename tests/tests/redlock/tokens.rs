//! Fencing tokens, while keys vanish at any time.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::Nodes;

/// Far more than it takes to see enough.
const LONG: Duration = Duration::from_secs(120);

/// What one acquisition saw: when it began and ended, and its fencing token.
type Seen = (Instant, Instant, u64);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fencing_tokens_are_unique_and_in_order_even_while_locks_vanish() {
    let nodes = Nodes::start(3);
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let client = nodes.client().await;
        let (seen, stop) = (Arc::clone(&seen), Arc::clone(&stop));
        tasks.push(tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let begun = Instant::now();
                let lock = client.lock("vanishing").with_ttl(Duration::from_secs(1));
                let Ok(guard) = lock.acquire_timeout(Duration::from_secs(5)).await else {
                    continue;
                };
                let token = guard.fencing_token().get();
                seen.lock().unwrap().push((begun, Instant::now(), token));
                let _ = guard.release().await;
            }
        }));
    }
    let begun = Instant::now();
    let mut rounds = 0;
    let enough = || seen.lock().unwrap().len() > 100;
    while begun.elapsed() < Duration::from_secs(8) || !enough() && begun.elapsed() < LONG {
        rounds += 1;
        nodes.0.0[rounds % 3].cli(&["DEL", "lock:vanishing"]);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    stop.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    eprintln!("{} acquisitions, {rounds} deletions", seen.len());
    assert!(seen.len() > 100, "only {} acquisitions", seen.len());
    seen.sort_unstable_by_key(|&(_, _, token)| token);
    for pair in seen.windows(2) {
        assert_ne!(pair[0].2, pair[1].2, "a fencing token was given twice");
    }
    // In the order of tokens, none began after one with a greater token had ended.
    let mut earliest_end = None::<Instant>;
    for &(begun, ended, token) in seen.iter().rev() {
        if let Some(end) = earliest_end {
            assert!(begun < end, "{token} was given after a greater one");
        }
        earliest_end = Some(earliest_end.map_or(ended, |end| end.min(ended)));
    }
}
