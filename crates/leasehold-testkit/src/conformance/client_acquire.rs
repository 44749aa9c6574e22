//! Acquiring by the public API: waiting, trying, giving up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold::ErrorKind;
use tokio::{task::JoinSet, time::Instant};

use super::{
    BRIEF, Peer, SHORT, SOON, Topology,
    client::{client, nothing_left, take, waiters},
};

/// A lock is acquired, held, and free after its release.
pub async fn a_lock_is_acquired_and_released<T: Topology>(store: &T) {
    let client = client(store).await;
    let lock = client.lock("plain").with_label("the nightly job");
    let guard = lock.acquire().await.unwrap();
    guard.check().unwrap();
    assert!(guard.is_held() && guard.remaining() < guard.ttl().get());
    let status = lock.inspect().await.unwrap();
    let owner = status.holders[0].owner().expect("an owner of this library");
    assert_eq!(
        (&owner, owner.label().as_str()),
        (guard.owner(), "the nightly job")
    );
    assert_eq!(status.holders[0].token, Some(guard.fencing_token()));
    guard.release().await.unwrap();
    assert!(lock.inspect().await.unwrap().is_free());
}

/// A try at a held name answers none, with any number of clients, and leaves nothing.
pub async fn a_try_at_a_held_lock_is_none<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let guard = one
        .lock("tried")
        .try_acquire()
        .await
        .unwrap()
        .expect("it is free");
    for client in [&one, &two] {
        assert!(client.lock("tried").try_acquire().await.unwrap().is_none());
    }
    assert!(one.inspect("tried").await.unwrap().waiters.is_empty());
    guard.release().await.unwrap();
    assert!(two.lock("tried").try_acquire().await.unwrap().is_some());
}

/// A waiter whose time is up is told so, and by whom the lock is held, and leaves the queue.
pub async fn a_waiter_whose_time_is_up_leaves_the_queue<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let guard = take(&one, "patience").await;
    let limit = BRIEF;
    let begun = Instant::now();
    let error = two
        .lock("patience")
        .acquire_timeout(limit)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert_eq!(error.lock_name(), Some("patience"));
    let holder = error.holder().and_then(leasehold::Holder::owner);
    assert_eq!(holder.as_ref(), Some(guard.owner()));
    assert!(begun.elapsed() >= limit && begun.elapsed() < limit + SOON);
    assert!(one.inspect("patience").await.unwrap().waiters.is_empty());
}

/// A release wakes the waiter of another client.
pub async fn a_release_wakes_the_next<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let guard = take(&one, "woken").await;
    let token = guard.fencing_token();
    let waiter = tokio::spawn({
        let lock = two.lock("woken");
        async move { lock.acquire().await.unwrap() }
    });
    waiters(&one, "woken", 1).await;
    let begun = Instant::now();
    guard.release().await.unwrap();
    let next = waiter.await.unwrap();
    assert!(begun.elapsed() < SOON, "woken after {:?}", begun.elapsed());
    assert!(next.fencing_token() > token);
    next.check().unwrap();
}

/// The lock of a holder that fell silent is had by the next within a second of its expiry, and
/// in virtual time within milliseconds. A busy machine only makes it later: the best of a few
/// counts.
pub async fn b12_a_silent_holder_is_followed_at_its_expiry<T: Topology>(store: &T) {
    let (silent, client) = (Peer::join(store).await, client(store).await);
    let bound = Duration::from_millis(if T::VIRTUAL { 10 } else { 1000 });
    let mut late = Vec::new();
    while late.last().is_none_or(|late| *late > bound) {
        assert!(late.len() < 10, "so long after the expiry: {late:?}");
        let begun = Instant::now();
        silent.take_for("silent", SHORT).await;
        let guard = client.lock("silent").acquire().await.unwrap();
        late.push(begun.elapsed().saturating_sub(SHORT));
        guard.release().await.unwrap();
    }
}

/// Many tasks of several clients exclude each other, and their fencing tokens rise.
pub async fn many_tasks_exclude_each_other<T: Topology>(store: &T) {
    let clients = [client(store).await, client(store).await];
    let (last, total) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for task in 0..8_usize {
        let lock = clients[task % 2].lock("counter");
        let (last, total) = (Arc::clone(&last), Arc::clone(&total));
        tasks.spawn(async move {
            for _ in 0..10 {
                let guard = lock.acquire().await.unwrap();
                let token = guard.fencing_token().get();
                assert!(
                    last.swap(token, Ordering::SeqCst) < token,
                    "fencing tokens rise"
                );
                let count = total.load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                total.store(count + 1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!(total.load(Ordering::SeqCst), 80, "updates were lost");
    nothing_left(&clients[0], "counter").await;
}

/// Waiters of several clients are served in the order in which they came.
pub async fn waiters_are_served_in_order<T: Topology>(store: &T) {
    let clients = [
        client(store).await,
        client(store).await,
        client(store).await,
    ];
    if super::lacks(clients[0].capabilities().fair, "fair") {
        return;
    }
    let guard = take(&clients[0], "order").await;
    let (sender, mut served) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..6_usize {
        let (lock, sender) = (clients[number % 3].lock("order"), sender.clone());
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            sender.send(number).unwrap();
            guard.release().await.unwrap();
        });
        waiters(&clients[0], "order", number + 1).await;
    }
    guard.release().await.unwrap();
    for number in 0..6 {
        assert_eq!(served.recv().await, Some(number));
    }
}

/// One lock value used by two tasks is two acquisitions.
pub async fn b35_one_lock_value_is_as_many_owners_as_acquisitions<T: Topology>(store: &T) {
    let client = client(store).await;
    let lock = client.lock("one value");
    let first = lock.acquire().await.unwrap();
    assert!(
        lock.try_acquire().await.unwrap().is_none(),
        "not re-entrant"
    );
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    waiters(&client, "one value", 1).await;
    let owner = first.owner().clone();
    first.release().await.unwrap();
    let second = waiter.await.unwrap();
    assert_ne!(*second.owner(), owner);
    second.check().unwrap();
}

/// What is out of range is refused before anything is sent.
pub async fn b03_what_is_out_of_range_is_refused<T: Topology>(store: &T) {
    let client = client(store).await;
    let lock = client.lock("range");
    let spans = [
        Duration::ZERO,
        Duration::from_millis(1),
        Duration::from_millis(99),
        Duration::from_secs(7 * 86_400),
        Duration::from_millis(u64::MAX),
        Duration::MAX,
    ];
    for span in spans {
        let error = lock.clone().with_ttl(span).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{span:?}");
        let message = error.to_string();
        assert!(
            message.contains("100 ms") && message.contains("24 h"),
            "{message}"
        );
    }
    for name in ["", "a\nb", "~slot", "}~queue:a", &"x".repeat(513)] {
        let error = client.lock(name).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name:?}");
    }
    assert!(client.list("").await.unwrap().is_empty());
    // An odd wait is no reason to fail: it is cut to what is possible.
    let guard = lock.acquire_timeout(Duration::MAX).await.unwrap();
    guard.release().await.unwrap();
}

/// The name of a lock is what inspection and listing show.
pub async fn what_is_held_is_listed<T: Topology>(store: &T) {
    let client = client(store).await;
    client.ping().await.unwrap();
    let guards = [take(&client, "list/a").await, take(&client, "list/b").await];
    take(&client, "other").await.release().await.unwrap();
    let mut listed = client.list("list/").await.unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<_> = listed.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["list/a", "list/b"]);
    for (entry, guard) in listed.iter().zip(&guards) {
        assert_eq!(entry.holders[0].value, guard.owner().as_str());
    }
}
