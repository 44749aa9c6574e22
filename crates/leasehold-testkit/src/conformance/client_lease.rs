//! Holding by the public API: renewal, deadline, loss.

use std::time::Duration;

use leasehold::{ErrorKind, Guard, Loss, Renew, RunError};
use tokio::time::{Instant, sleep, timeout};

use super::{
    SHORT, SOON, Topology,
    client::{client, nothing_left, take},
};

async fn expect_lost(guard: &Guard, loss: Loss) {
    assert_eq!(
        timeout(SOON, guard.lost()).await.expect("the loss is told"),
        loss
    );
    assert!(guard.lost_signal().is_cancelled());
    assert!(!guard.is_held() && guard.remaining().is_zero());
    let error = guard.check().unwrap_err();
    assert_eq!((error.kind(), error.loss()), (ErrorKind::Lost, Some(loss)));
}

/// A lock is held for longer than its TTL while another tries all the time.
pub async fn b08_renewal_keeps_a_lock<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let ttl = Duration::from_secs(5);
    let guard = one.lock("kept").with_ttl(ttl).acquire().await.unwrap();
    let begun = Instant::now();
    while begun.elapsed() < ttl * 5 / 4 {
        assert!(two.lock("kept").try_acquire().await.unwrap().is_none());
        guard.check().unwrap();
        sleep(ttl / 20).await;
    }
    guard.release().await.unwrap();
    nothing_left(&two, "kept").await;
}

/// Many short acquisitions with renewal, one after another, leave nothing behind that renews.
pub async fn b09_nothing_renews_after_the_release<T: Topology>(store: &T) {
    let client = client(store).await;
    let ttl = Duration::from_secs(3);
    for round in 0..50 {
        let lock = client.lock(format!("brief {}", round % 5)).with_ttl(ttl);
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    assert!(client.list("").await.unwrap().is_empty());
    // Longer than until a renewal.
    sleep(ttl / 2).await;
    assert!(client.list("").await.unwrap().is_empty());
}

/// A lease that is not renewed ends at its deadline, by the holder's clock, and not later than the
/// store gives it to another.
pub async fn b01_a_lease_that_is_not_renewed_is_lost<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let lock = one.lock("lapsed").with_ttl(SHORT).with_renew(Renew::Never);
    let guard = lock.acquire().await.unwrap();
    let (token, deadline) = (guard.fencing_token(), guard.deadline());
    let next = take(&two, "lapsed").await;
    assert!(
        two.clock().now() >= deadline,
        "given away before the deadline"
    );
    assert!(next.fencing_token() > token);
    expect_lost(&guard, Loss::Expired).await;
    let error = guard.extend(SHORT).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    next.check().unwrap();
    assert!(two.lock("lapsed").try_acquire().await.unwrap().is_none());
    next.release().await.unwrap();
}

/// A lease with a cap is renewed until then, and lost then.
pub async fn a_capped_lease_ends_at_its_cap<T: Topology>(store: &T) {
    let client = client(store).await;
    let (ttl, cap) = (Duration::from_secs(3), Duration::from_millis(4500));
    let lock = client
        .lock("capped")
        .with_ttl(ttl)
        .with_renew(Renew::AtMost(cap));
    let guard = lock.acquire().await.unwrap();
    let begun = Instant::now();
    expect_lost(&guard, Loss::Expired).await;
    let held = begun.elapsed();
    assert!(held > ttl && held <= cap + SOON, "{held:?}");
}

/// An extension lengthens a lease once; one that is out of range changes nothing.
pub async fn b03_an_extension_lengthens_and_never_shortens<T: Topology>(store: &T) {
    let client = client(store).await;
    let lock = client
        .lock("extended")
        .with_ttl(SOON)
        .with_renew(Renew::Never);
    let guard = lock.acquire().await.unwrap();
    let before = guard.deadline();
    for span in [Duration::ZERO, Duration::from_millis(1), Duration::MAX] {
        assert_eq!(
            guard.extend(span).await.unwrap_err().kind(),
            ErrorKind::Invalid
        );
    }
    assert_eq!(
        guard.extend(SHORT).await.unwrap(),
        before,
        "never shortened"
    );
    let after = guard.extend(SOON * 3).await.unwrap();
    assert!(after > before && guard.deadline() == after);
    let remaining = client.inspect("extended").await.unwrap().holders[0]
        .remaining
        .unwrap();
    assert!(remaining > SOON * 2);
}

/// A holder that was put out by force is told at once, and stays out.
pub async fn b02_a_holder_put_out_by_force_stays_out<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let guard = take(&one, "forced").await;
    let owner = guard.owner().clone();
    assert!(!two.force_release("forced", "somebody else").await.unwrap());
    assert!(two.force_release("forced", owner.as_str()).await.unwrap());
    let loss = timeout(SOON, guard.lost())
        .await
        .expect("told at the next renewal at the latest");
    assert!(matches!(loss, Loss::Revoked | Loss::Missing), "{loss:?}");
    let next = take(&two, "forced").await;
    assert_eq!(
        guard.extend(SOON).await.unwrap_err().kind(),
        ErrorKind::Lost
    );
    assert!(guard.check().is_err(), "loss is final");
    drop(guard);
    sleep(Duration::from_millis(50)).await;
    next.check().unwrap();
    assert_eq!(
        two.inspect("forced").await.unwrap().holders[0].value,
        next.owner().as_str()
    );
}

/// Validity is less than the TTL, and less than what is left in the store.
pub async fn b07_validity_is_less_than_what_the_store_keeps<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let ttl = SOON;
    let first = one.lock("validity").with_ttl(ttl).acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = two.lock("validity").with_ttl(ttl).with_renew(Renew::Never);
        async move { lock.acquire().await.unwrap() }
    });
    super::client::waiters(&one, "validity", 1).await;
    sleep(Duration::from_millis(300)).await;
    first.release().await.unwrap();
    let guard = waiter.await.unwrap();
    let (left, asked) = (guard.remaining(), Instant::now());
    let status = two.inspect("validity").await.unwrap();
    let kept = status.holders[0].remaining.unwrap() + asked.elapsed();
    assert!(left < ttl && left <= kept, "{left:?} of {kept:?}");
    assert!(left > ttl / 2, "{left:?}");
}

/// Work under a lock is done once, with its result; work that outlasts the lock is dropped.
pub async fn work_runs_under_a_lock<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let lock = one.lock("work");
    let done = lock
        .run(async |guard| guard.fencing_token().get())
        .await
        .unwrap();
    assert!(done > 0);
    nothing_left(&two, "work").await;
    let lost = lock
        .run(async |guard| {
            let owner = guard.owner().clone();
            assert!(two.force_release("work", owner.as_str()).await.unwrap());
            std::future::pending::<()>().await;
        })
        .await;
    assert!(matches!(lost, Err(RunError::Lost(_))), "{lost:?}");
    let short = lock.clone().with_ttl(SHORT).with_renew(Renew::Never);
    let late = short
        .run(async |guard| {
            while guard.is_held() {
                std::thread::sleep(Duration::from_millis(1));
                if T::VIRTUAL {
                    tokio::time::advance(Duration::from_millis(1)).await;
                }
            }
            7
        })
        .await;
    assert!(
        matches!(late, Err(RunError::LostAfter(7, _) | RunError::Lost(_))),
        "{late:?}"
    );
    nothing_left(&two, "work").await;
}
