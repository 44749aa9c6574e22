//! The other kinds of locks of the public API: readers and writers, permits, several at once,
//! elections.

use leasehold::ErrorKind;
use tokio::time::timeout;

use super::{
    SOON, Topology,
    client::{client, nothing_left, take, waiters},
};

/// Readers share; a writer is the exclusive lock of that name.
pub async fn readers_share_and_writers_do_not<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let (lock, other) = (one.rw_lock("book"), two.rw_lock("book"));
    if !one.capabilities().shared {
        assert_eq!(
            lock.read().await.unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        return;
    }
    let readers = (lock.read().await.unwrap(), other.read().await.unwrap());
    let tokens = (readers.0.fencing_token(), readers.1.fencing_token());
    assert!(super::share(one.capabilities(), tokens.0, tokens.1));
    assert!(lock.try_write().await.unwrap().is_none());
    assert!(one.lock("book").try_acquire().await.unwrap().is_none());
    let error = lock.write_timeout(super::BRIEF).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    readers.0.release().await.unwrap();
    readers.1.release().await.unwrap();
    let writer = lock.write().await.unwrap();
    assert!(other.try_read().await.unwrap().is_none());
    writer.release().await.unwrap();
    nothing_left(&one, "book").await;
}

/// A waiting writer is not starved by readers that keep coming.
pub async fn b32_readers_do_not_starve_a_writer<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    if !one.capabilities().shared || !one.capabilities().fair {
        return;
    }
    let lock = one.rw_lock("starved");
    let first = lock.read().await.unwrap();
    let writer = tokio::spawn({
        let lock = two.rw_lock("starved");
        async move { lock.write().await.unwrap() }
    });
    waiters(&one, "starved", 1).await;
    assert!(lock.try_read().await.unwrap().is_none());
    first.release().await.unwrap();
    let writer = timeout(SOON, writer).await.expect("served").unwrap();
    writer.release().await.unwrap();
}

/// Permits are given up to the limit; another limit is a conflict.
pub async fn permits_are_counted<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let (pool, other) = (one.semaphore("pool", 3), two.semaphore("pool", 3));
    if !one.capabilities().permits {
        assert_eq!(
            pool.acquire().await.unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        return;
    }
    let pair = pool.acquire_many(2).await.unwrap();
    let single = other.acquire().await.unwrap();
    assert!(other.try_acquire().await.unwrap().is_none());
    let error = two.semaphore("pool", 2).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    for (limit, count) in [(3, 0), (3, 4), (0, 1), (1_000_001, 1)] {
        let error = one
            .semaphore("pool", limit)
            .acquire_many(count)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{count} of {limit}");
    }
    single.release().await.unwrap();
    let waiter = tokio::spawn({
        let other = other.clone();
        async move { other.acquire_many(3).await.unwrap() }
    });
    waiters(&one, "pool", 1).await;
    pair.release().await.unwrap();
    timeout(SOON, waiter)
        .await
        .expect("served")
        .unwrap()
        .release()
        .await
        .unwrap();
    nothing_left(&one, "pool").await;
}

/// A writer becomes a reader without letting go.
pub async fn a_writer_becomes_a_reader<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let writer = take(&one, "downgraded").await;
    let token = writer.fencing_token();
    if !one.capabilities().downgrade {
        assert_eq!(
            writer.downgrade().await.unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        return;
    }
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(reader.fencing_token(), token);
    assert!(
        two.lock("downgraded")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    let other = two
        .rw_lock("downgraded")
        .try_read()
        .await
        .unwrap()
        .expect("readers are let in");
    assert_eq!(other.fencing_token(), token);
    reader.release().await.unwrap();
    other.release().await.unwrap();
    nothing_left(&one, "downgraded").await;
}

/// Several locks are taken together or not at all.
pub async fn b33_several_locks_are_all_or_none<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let names = ["all/b", "all/a", "all/c"];
    let lock = one.lock_all(names);
    let single = take(&two, "all/c").await;
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(
        two.lock("all/a").try_acquire().await.unwrap().is_some(),
        "nothing is kept"
    );
    nothing_left(&two, "all/a").await;
    single.release().await.unwrap();
    let guard = timeout(SOON, lock.acquire())
        .await
        .expect("in time")
        .unwrap();
    guard.check().unwrap();
    for name in names {
        assert!(
            two.lock(name).try_acquire().await.unwrap().is_none(),
            "{name}"
        );
    }
    guard.release().await.unwrap();
    for name in names {
        nothing_left(&two, name).await;
    }
}

/// One of those that campaign leads, and its terms rise.
pub async fn b24_one_leads_at_a_time<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    if super::lacks(one.capabilities().notes, "notes") {
        return;
    }
    let first = one.election("leader").campaign("one").await.unwrap();
    let second = tokio::spawn({
        let election = two.election("leader");
        async move { election.campaign("two").await.unwrap() }
    });
    waiters(&one, "leader", 1).await;
    let leader = two
        .election("leader")
        .leader()
        .await
        .unwrap()
        .expect("one leads");
    assert_eq!((leader.term, leader.value.as_str()), (first.term(), "one"));
    let term = first.term();
    first.resign().await.unwrap();
    let second = timeout(SOON, second).await.expect("elected").unwrap();
    assert!(second.term() > term);
    second.check().unwrap();
    second.resign().await.unwrap();
    assert!(one.election("leader").leader().await.unwrap().is_none());
}
