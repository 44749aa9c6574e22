//! More of readers and writers, permits, and what keeps a lock held, by the public API.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::{ErrorKind, Loss, Renew, blocking};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    BRIEF, SHORT, SOON, Topology,
    client::{client, nothing_left, take, waiters},
};

/// A writer gets in although readers overlap all the time, and they go on after it.
pub async fn b32_a_writer_gets_in_between_overlapping_readers<T: Topology>(store: &T) {
    let clients = [client(store).await, client(store).await];
    let able = clients[0].capabilities();
    if super::lacks(able.shared, "shared") || super::lacks(able.fair, "fair") {
        return;
    }
    let mut readers = JoinSet::new();
    let written = Arc::new(AtomicBool::new(false));
    for number in 0..6_usize {
        let lock = clients[number % 2].rw_lock("busy");
        let written = Arc::clone(&written);
        readers.spawn(async move {
            let (mut last, mut goes_on) = (0, true);
            while goes_on {
                goes_on = !written.load(Ordering::SeqCst);
                let guard = lock.read().await.unwrap();
                assert!(guard.fencing_token().get() >= last);
                last = guard.fencing_token().get();
                sleep(Duration::from_millis(60 + 10 * number as u64)).await;
                guard.release().await.unwrap();
            }
            last
        });
    }
    sleep(Duration::from_millis(200)).await;
    let lock = clients[0].rw_lock("busy");
    let writer = timeout(SOON, lock.write()).await.expect("let in").unwrap();
    let token = writer.fencing_token().get();
    sleep(Duration::from_millis(20)).await;
    writer.release().await.unwrap();
    written.store(true, Ordering::SeqCst);
    while let Some(last) = readers.join_next().await {
        assert!(
            last.unwrap() > token,
            "the readers went on after the writer"
        );
    }
    nothing_left(&clients[0], "busy").await;
}

/// Readers that wait behind a writer come in together, under one fencing token.
pub async fn readers_behind_a_writer_come_in_together<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    if super::lacks(one.capabilities().shared, "shared") {
        return;
    }
    let writer = one.rw_lock("batch").write().await.unwrap();
    let mut readers = JoinSet::new();
    for number in 0..4 {
        let lock = if number % 2 == 0 { &one } else { &two }.rw_lock("batch");
        readers.spawn(async move { lock.read().await.unwrap() });
        waiters(&one, "batch", number + 1).await;
    }
    writer.release().await.unwrap();
    let readers = timeout(SOON, readers.join_all()).await.expect("served");
    assert_eq!(one.inspect("batch").await.unwrap().holders.len(), 4);
    let token = readers[0].fencing_token();
    let able = one.capabilities();
    let tokens = readers.iter().map(leasehold::Guard::fencing_token);
    assert!(tokens.into_iter().all(|it| super::share(able, token, it)));
}

/// A reader that asks for the write lock as well waits in vain, and keeps what it has.
pub async fn b32_a_reader_that_asks_for_more_waits_until_its_time_is_up<T: Topology>(store: &T) {
    let client = client(store).await;
    if super::lacks(client.capabilities().shared, "shared") {
        return;
    }
    let lock = client.rw_lock("more");
    let reader = lock.read().await.unwrap();
    let error = lock.write_timeout(BRIEF).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    reader.check().unwrap();
    let second = lock.try_read().await.unwrap();
    assert!(second.is_some(), "the wait left nothing behind");
    reader.release().await.unwrap();
}

/// A permit whose holder is gone comes back after its TTL, and its late release adds none.
pub async fn b31_a_lost_permit_comes_back_once<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    if super::lacks(one.capabilities().permits, "permits") {
        return;
    }
    let silent = one
        .semaphore("pool", 3)
        .with_ttl(SHORT)
        .with_renew(Renew::Never);
    let lost = (
        silent.acquire().await.unwrap(),
        silent.acquire().await.unwrap(),
    );
    let pool = two.semaphore("pool", 3);
    let kept = pool.acquire().await.unwrap();
    let pair = timeout(SOON, pool.acquire_many(2)).await.expect("in time");
    let pair = pair.unwrap();
    assert_eq!(lost.0.release().await.unwrap_err().kind(), ErrorKind::Lost);
    drop(lost.1);
    sleep(Duration::from_millis(50)).await;
    assert!(
        pool.try_acquire().await.unwrap().is_none(),
        "three are taken"
    );
    kept.release().await.unwrap();
    let last = pool.try_acquire().await.unwrap().expect("one is free");
    assert!(pool.try_acquire().await.unwrap().is_none(), "and no more");
    last.release().await.unwrap();
    pair.release().await.unwrap();
    nothing_left(&two, "pool").await;
}

/// Those that wait keep their places while one holds for several times their patience.
pub async fn b13_readers_and_writers_keep_their_places_behind_a_long_hold<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let able = one.capabilities();
    if super::lacks(able.shared, "shared") || super::lacks(able.fair, "fair") {
        return;
    }
    // It is also the patience of those that wait.
    let ttl = Duration::from_secs(3);
    let lock = |client: &leasehold::Client| client.rw_lock("long").with_ttl(ttl);
    let first = one.rw_lock("long").write().await.unwrap();
    let mut waiting = JoinSet::new();
    for (number, reads) in [true, false, true].into_iter().enumerate() {
        let lock = lock(if reads { &one } else { &two });
        waiting.spawn(async move {
            let guard = if reads {
                lock.read().await.unwrap()
            } else {
                lock.write().await.unwrap()
            };
            (number, guard)
        });
        waiters(&one, "long", number + 1).await;
    }
    sleep(ttl * 2).await;
    assert_eq!(one.inspect("long").await.unwrap().waiters.len(), 3);
    let mut token = first.fencing_token();
    first.release().await.unwrap();
    for expected in 0..3 {
        let next = timeout(SOON, waiting.join_next()).await.expect("served");
        let (number, guard) = next.unwrap().unwrap();
        assert_eq!(number, expected);
        assert!(guard.fencing_token() > token);
        token = guard.fencing_token();
        guard.release().await.unwrap();
    }
}

/// A heartbeat keeps a lock as long as the work makes progress, and no longer.
pub async fn a_lock_is_kept_while_there_is_progress<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let (ttl, patience) = (Duration::from_secs(3), Duration::from_secs(3));
    let lock = one.lock("heartbeat").with_ttl(ttl);
    let lock = lock.with_renew(Renew::WhileProgress(patience));
    let guard = lock.acquire().await.unwrap();
    for _ in 0..25 {
        sleep(Duration::from_millis(150)).await;
        guard.progress();
    }
    guard
        .check()
        .expect("reports kept it for longer than its TTL");
    let next = take(&two, "heartbeat").await;
    let loss = timeout(SOON, guard.lost()).await.expect("told");
    assert_eq!(loss, Loss::Expired);
    next.release().await.unwrap();
}

/// A lock that several tasks share is released when the last of them lets go.
pub async fn a_shared_guard_is_released_by_its_last_clone<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let first = take(&one, "together").await.share();
    let second = first.clone();
    first.release().await.unwrap();
    second.check().unwrap();
    assert!(two.lock("together").try_acquire().await.unwrap().is_none());
    let third = second.clone();
    drop(second);
    assert!(third.is_held());
    drop(third);
    take(&two, "together").await.release().await.unwrap();
}

/// The blocking API holds in every way, from a thread without a runtime.
pub async fn the_blocking_api_holds_in_every_way<T: Topology>(store: &T) {
    // A client with a thread of its own has no part in the time of a paused runtime.
    if T::VIRTUAL {
        return;
    }
    let backends = (store.connect().await, store.connect().await);
    let done = std::thread::spawn(move || {
        let one = blocking::Client::new(backends.0).unwrap();
        let two = blocking::Client::new(backends.1).unwrap();
        hold_in_every_way(&one, &two);
        assert!(two.list("").unwrap().is_empty());
    });
    tokio::task::spawn_blocking(|| done.join())
        .await
        .unwrap()
        .unwrap();
}

fn hold_in_every_way(one: &blocking::Client, two: &blocking::Client) {
    let guard = one.lock("a").acquire().unwrap();
    assert!(two.lock("a").try_acquire().unwrap().is_none());
    let waiter = std::thread::spawn({
        let lock = two.lock("a");
        move || lock.acquire().unwrap().release().unwrap()
    });
    guard.release().unwrap();
    waiter.join().unwrap();
    let all = one.lock_all(["b", "a"]).acquire().unwrap();
    assert!(two.lock("b").try_acquire().unwrap().is_none());
    all.release().unwrap();
    let able = one.capabilities();
    if able.shared {
        let readers = (
            one.rw_lock("c").read().unwrap(),
            two.rw_lock("c").read().unwrap(),
        );
        assert!(one.rw_lock("c").try_write().unwrap().is_none());
        readers.0.release().unwrap();
        readers.1.release().unwrap();
    }
    if able.permits {
        let pair = one.semaphore("d", 3).acquire_many(2).unwrap();
        assert!(two.semaphore("d", 3).try_acquire_many(2).unwrap().is_none());
        pair.release().unwrap();
    }
    if able.notes {
        let leads = one.election("e").campaign("me").unwrap();
        let leader = two.election("e").leader().unwrap().expect("one leads");
        assert_eq!((leader.value.as_str(), leader.term), ("me", leads.term()));
        leads.resign().unwrap();
    }
}
