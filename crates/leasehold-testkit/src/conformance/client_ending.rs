//! Letting go by the public API: cancelling, dropping, shutting down, handing over.

use std::time::Duration;

use leasehold::{ErrorKind, Lease, Loss, Renew};
use tokio::time::{sleep, timeout};

use super::{
    LONG, SHORT, SOON, Topology,
    client::{client, nothing_left, take, waiters},
};
use crate::sim::cancel::drop_after;

/// How many polls an acquisition or a release takes at most before it only waits.
const POLLS: u32 = 16;

/// An acquire of a free name that is dropped wherever it waits leaves nothing.
pub async fn b25_a_cancelled_acquire_leaves_nothing<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let lock = one.lock("cancelled").with_ttl(LONG);
    for polls in 0..POLLS {
        drop(drop_after(lock.acquire(), polls).await);
        drop(drop_after(lock.try_acquire(), polls).await);
        take(&two, "cancelled").await.release().await.unwrap();
        nothing_left(&two, "cancelled").await;
    }
}

/// A waiter that is dropped wherever it waits leaves the queue; if it was served meanwhile, the
/// next is.
pub async fn b25_a_cancelled_waiter_leaves_the_queue<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    for polls in 1..POLLS {
        let guard = take(&two, "waited").await;
        let waiter = tokio::spawn({
            let lock = one.lock("waited").with_ttl(LONG);
            async move { drop_after(lock.acquire(), polls).await.map(drop) }
        });
        sleep(Duration::from_millis(u64::from(polls % 4))).await;
        guard.release().await.unwrap();
        take(&two, "waited").await.release().await.unwrap();
        waiter.abort();
        let _ = waiter.await;
        nothing_left(&two, "waited").await;
    }
}

/// A release that is dropped wherever it waits goes on in the background.
pub async fn b25_a_cancelled_release_goes_on<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    for polls in 0..POLLS {
        let guard = one.lock("let go").with_ttl(LONG).acquire().await.unwrap();
        drop(drop_after(guard.release(), polls).await);
        take(&two, "let go").await.release().await.unwrap();
        nothing_left(&two, "let go").await;
    }
}

/// A guard that is dropped releases its lock, also when its client is gone.
pub async fn b26_a_dropped_guard_releases<T: Topology>(store: &T) {
    let two = client(store).await;
    let one = client(store).await;
    drop(one.lock("dropped").with_ttl(LONG).acquire().await.unwrap());
    nothing_left(&two, "dropped").await;
    let guard = one.lock("dropped").with_ttl(LONG).acquire().await.unwrap();
    drop(one);
    guard.check().unwrap();
    sleep(Duration::from_millis(50)).await;
    assert!(
        two.lock("dropped").try_acquire().await.unwrap().is_none(),
        "it lives on"
    );
    drop(guard);
    nothing_left(&two, "dropped").await;
}

/// A guard that a panic drops releases its lock.
pub async fn b26_a_panic_releases<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let guard = one.lock("panic").with_ttl(LONG).acquire().await.unwrap();
    let ended = tokio::spawn(async move {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(ended.await.unwrap_err().is_panic());
    nothing_left(&two, "panic").await;
}

/// A shutdown releases what is held, tells the holders, and takes no new locks.
pub async fn a_shutdown_releases_everything<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let guard = one.lock("shut").with_ttl(LONG).acquire().await.unwrap();
    drop(
        one.lock("dropped before")
            .with_ttl(LONG)
            .acquire()
            .await
            .unwrap(),
    );
    let blocked = take(&two, "blocked").await;
    let waiter = tokio::spawn({
        let lock = one.lock("blocked");
        async move { lock.acquire().await.map(drop) }
    });
    waiters(&two, "blocked", 1).await;
    one.shutdown(SOON).await.unwrap();
    assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
    timeout(SOON, guard.lost()).await.expect("told");
    let refused = one.lock("shut").try_acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    let stopped = timeout(SOON, waiter)
        .await
        .expect("a waiter does not hang")
        .unwrap();
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Unavailable);
    blocked.release().await.unwrap();
    assert!(two.list("").await.unwrap().is_empty());
}

/// A lock is handed to another client as text, under the same fencing token.
pub async fn a_lease_is_handed_over_as_text<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    if !one.capabilities().detach {
        let guard = take(&one, "handed").await;
        assert_eq!(
            guard.into_lease().await.unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        return nothing_left(&one, "handed").await;
    }
    let guard = one.lock("handed").with_ttl(SOON).acquire().await.unwrap();
    let (token, owner) = (guard.fencing_token(), guard.owner().clone());
    let text = guard.into_lease().await.unwrap().to_string();
    drop(one);
    let lease: Lease = text.parse().unwrap();
    let guard = two.adopt(lease.clone()).await.unwrap();
    assert_eq!((guard.fencing_token(), guard.owner()), (token, &owner));
    assert!(two.lock("handed").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    nothing_left(&two, "handed").await;
    let error = two.adopt(lease).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.loss()),
        (ErrorKind::Lost, Some(Loss::Missing))
    );
}

/// A lease whose lock passed on is not adopted, and the new holder keeps it.
pub async fn b02_a_lease_that_ended_is_not_adopted<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    if super::lacks(one.capabilities().detach, "detach") {
        return;
    }
    let lock = one
        .lock("too late")
        .with_ttl(SHORT)
        .with_renew(Renew::Never);
    let lease = lock.acquire().await.unwrap().into_lease().await.unwrap();
    let next = take(&two, "too late").await;
    let error = one.adopt(lease).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.loss()),
        (ErrorKind::Lost, Some(Loss::Taken))
    );
    next.check().unwrap();
    next.release().await.unwrap();
}

/// A minimum hold outlasts the release, in the hands of nobody.
pub async fn a_minimum_hold_outlasts_the_release<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let span = Duration::from_secs(1);
    let lock = one.lock("cron").with_min_hold(span);
    if !one.capabilities().min_hold {
        assert_eq!(
            lock.acquire().await.unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        return;
    }
    let begun = tokio::time::Instant::now();
    lock.acquire().await.unwrap().release().await.unwrap();
    if begun.elapsed() < span / 2 {
        assert!(two.lock("cron").try_acquire().await.unwrap().is_none());
    }
    drop(one);
    take(&two, "cron").await.release().await.unwrap();
    let slack = Duration::from_millis(20);
    assert!(
        begun.elapsed() + slack >= span,
        "free after {:?}",
        begun.elapsed()
    );
}
