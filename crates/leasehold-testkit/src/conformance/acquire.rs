//! Taking a lock: one attempt.

use std::time::Duration;

use leasehold::backend::{Attempt, Backend, HolderKind, Mode, Released};

use super::{
    LONG, Peer, SHORT, SOON, Topology,
    peer::{request, waiting},
};

/// A free name is granted, and inspection shows the holder as it is.
pub async fn a_free_name_is_granted<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let lease = peer.take("free").await;
    assert!(lease.grant.ttl.get() >= LONG);
    let status = peer.status("free").await;
    let [holder] = &status.holders[..] else {
        panic!("{status:?}")
    };
    assert_eq!(holder.kind, HolderKind::Held);
    assert_eq!(holder.owner().as_ref(), Some(&lease.owner));
    assert_eq!(holder.token, Some(lease.grant.token));
    assert_eq!(holder.mode, Mode::Exclusive);
    let remaining = holder.remaining.expect("a lease ends");
    assert!(
        remaining <= lease.grant.ttl.get() && remaining > LONG - SOON,
        "{remaining:?}"
    );
}

/// That another holds the name is an answer that says who, not an error.
pub async fn a_held_name_is_an_answer_with_its_holder<T: Topology>(store: &T) {
    let (first, second) = (Peer::join(store).await, Peer::join(store).await);
    let lease = first.take("held").await;
    let Attempt::Held(held) = second.ask(&request("held", &second.owner())).await else {
        panic!("a held name was given away")
    };
    assert_eq!(
        held.holder.and_then(|holder| holder.owner()),
        Some(lease.owner)
    );
    assert!(held.change_in <= LONG);
}

/// A second owner of the same client is another owner.
pub async fn b35_two_owners_of_one_client_exclude_each_other<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let first = peer.take("shared object").await;
    let second = peer.owner();
    assert!(matches!(
        peer.ask(&request("shared object", &second)).await,
        Attempt::Held(_)
    ));
    assert_eq!(
        peer.release("shared object", &second).await,
        Released::NotOurs
    );
    assert_eq!(peer.holders("shared object").await, [first.owner.as_str()]);
}

/// Each grant of a name has a greater fencing token than the one before: after a release, after an
/// expiry, and whichever client asks.
pub async fn fencing_tokens_rise<T: Topology>(store: &T) {
    let peers = [Peer::join(store).await, Peer::join(store).await];
    let mut last = None;
    for peer in peers.iter().cycle().take(6) {
        let lease = peer.take("rising").await;
        assert!(
            Some(lease.grant.token) > last,
            "{:?} after {last:?}",
            lease.grant.token
        );
        last = Some(lease.grant.token);
        assert_eq!(
            peer.release("rising", &lease.owner).await,
            Released::Released
        );
    }
    peers[0].take_for("rising", SHORT).await;
    let next = peers[1].owner();
    let lease = peers[1]
        .granted_within(&request("rising", &next), SOON)
        .await;
    assert!(Some(lease.grant.token) > last);
}

/// The same owner asking again holds once: the same fencing token, and one release is enough.
pub async fn b06_a_repeated_acquire_is_granted_once<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    let request = request("repeated", &peer.owner());
    let first = peer.granted(&request).await;
    for _ in 0..3 {
        assert_eq!(peer.granted(&request).await.grant.token, first.grant.token);
    }
    assert_eq!(peer.holders("repeated").await.len(), 1);
    assert_eq!(
        peer.release("repeated", &request.owner).await,
        Released::Released
    );
    assert!(peer.status("repeated").await.is_free());
    other.take("repeated").await;
}

/// A repeated grant has a full TTL again, so that its caller may count from this attempt.
pub async fn a_repeated_grant_has_a_full_ttl<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let request = request("full again", &peer.owner());
    peer.granted(&request).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let begun = tokio::time::Instant::now();
    peer.granted(&request).await;
    let remaining = peer.status("full again").await.holders[0]
        .remaining
        .unwrap();
    let slack = Duration::from_millis(2); // both round to whole milliseconds
    assert!(remaining + begun.elapsed() + slack >= LONG, "{remaining:?}");
}

/// A try does not overtake a waiter: neither while the lock is held nor after the hand-off.
pub async fn a_try_never_barges<T: Topology>(store: &T) {
    let holder = Peer::join(store).await;
    if super::lacks(holder.backend.capabilities().fair, "fair") {
        return;
    }
    let (waiter, barger) = (Peer::join(store).await, Peer::join(store).await);
    let lease = holder.take("barged").await;
    let (wait, _) = waiter.queue("barged").await;
    holder.release("barged", &lease.owner).await;
    let attempt = barger.ask(&request("barged", &barger.owner())).await;
    assert!(matches!(attempt, Attempt::Held(_)), "{attempt:?}");
    waiter.granted_within(&wait, SOON).await;
}

/// A try leaves the queue alone: a stranger is not in it afterwards, a waiter keeps its place.
pub async fn a_try_changes_no_queue<T: Topology>(store: &T) {
    let (holder, peer) = (Peer::join(store).await, Peer::join(store).await);
    if !holder.keeps_queue() {
        return;
    }
    holder.take("queue").await;
    let stranger = request("queue", &peer.owner());
    peer.ask(&stranger).await;
    assert!(peer.waiters("queue").await.is_empty());
    let (first, _) = peer.queue("queue").await;
    let (second, _) = peer.queue("queue").await;
    let before = peer.waiters("queue").await;
    assert_eq!(before, [first.owner.as_str(), second.owner.as_str()]);
    peer.ask(&request("queue", &first.owner)).await;
    peer.ask(&stranger).await;
    assert_eq!(peer.waiters("queue").await, before);
}

/// A name that is locked says nothing about another.
pub async fn each_name_is_a_lock_of_its_own<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let (first, second) = (peer.take("one").await, peer.take("two").await);
    peer.release("one", &first.owner).await;
    assert_eq!(peer.holders("two").await, [second.owner.as_str()]);
    // The owner is of one name only: releasing it elsewhere does nothing.
    assert_eq!(peer.release("one", &second.owner).await, Released::NotOurs);
    assert_eq!(peer.holders("two").await, [second.owner.as_str()]);
}

/// A lease that nobody renews ends, and the name is free and unlisted.
pub async fn b04_a_lease_ends_by_itself<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    peer.take_for("ends", SHORT).await;
    let begun = tokio::time::Instant::now();
    while !peer.status("ends").await.is_free() {
        assert!(begun.elapsed() < SOON, "still held");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(
        peer.backend
            .list("", None)
            .await
            .unwrap()
            .entries
            .is_empty()
    );
}

/// An acquire that was dropped after any number of polls, and then withdrawn, leaves nothing: not
/// even when its request is executed later than the drop.
pub async fn b25_a_dropped_acquire_leaves_nothing_after_its_withdrawal<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    for polls in 0..12 {
        let request = waiting(request("dropped", &peer.owner()), 0, None);
        super::peer::poll_times(peer.backend.acquire(&request), polls).await;
        peer.release("dropped", &request.owner).await;
        let status = peer.status("dropped").await;
        assert!(
            status.is_free() && status.waiters.is_empty(),
            "{polls}: {status:?}"
        );
        let lease = other.take("dropped").await;
        other.release("dropped", &lease.owner).await;
    }
}

/// The store answers a sign of life, and says what it is.
pub async fn a_store_answers_and_has_a_name<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    peer.backend.ping().await.unwrap();
    assert!(!peer.backend.capabilities().name.is_empty());
}
