//! Giving up a lock or a place in the queue.

use std::time::Duration;

use leasehold::backend::{Attempt, Released};
use tokio::time::{Instant, sleep};

use super::{BRIEF, Peer, SHORT, SOON, Topology, peer::request};

/// After a release the name is free for the next at once.
pub async fn a_release_frees_the_name<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    let lease = peer.take("freed").await;
    assert_eq!(
        peer.release("freed", &lease.owner).await,
        Released::Released
    );
    assert!(other.status("freed").await.is_free());
    other.take("freed").await;
}

/// A holder that overran its TTL does not release its successor.
pub async fn b01_a_late_release_leaves_the_next_owner_alone<T: Topology>(store: &T) {
    let peers = [
        Peer::join(store).await,
        Peer::join(store).await,
        Peer::join(store).await,
    ];
    let late = peers[0].take_for("job", SHORT).await;
    let next = peers[1].owner();
    let next = peers[1].granted_within(&request("job", &next), SOON).await;
    assert!(next.grant.token > late.grant.token);
    let before = peers[1].status("job").await.holders.remove(0);
    assert_eq!(
        peers[0].release("job", &late.owner).await,
        Released::NotOurs
    );
    let after = peers[1].status("job").await.holders.remove(0);
    assert_eq!((&before.value, before.token), (&after.value, after.token));
    assert!(
        after.remaining <= before.remaining,
        "its remaining time only ages"
    );
    assert!(matches!(
        peers[2].ask(&request("job", &peers[2].owner())).await,
        Attempt::Held(_)
    ));
    assert_eq!(
        peers[1].release("job", &next.owner).await,
        Released::Released
    );
}

/// A release may be repeated any number of times.
pub async fn b06_a_repeated_release_is_harmless<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    let lease = peer.take("twice").await;
    assert_eq!(
        peer.release("twice", &lease.owner).await,
        Released::Released
    );
    assert_eq!(peer.release("twice", &lease.owner).await, Released::NotOurs);
    let theirs = other.take("twice").await;
    assert_eq!(peer.release("twice", &lease.owner).await, Released::NotOurs);
    assert_eq!(other.holders("twice").await, [theirs.owner.as_str()]);
    assert_eq!(
        peer.release("never locked", &lease.owner).await,
        Released::NotOurs
    );
}

/// A release serves the queue also when it found nothing of its own: here the holder's lease ran
/// out while the waiter slept.
pub async fn a_release_that_finds_nothing_serves_the_queue<T: Topology>(store: &T) {
    let (peer, waiter) = (Peer::join(store).await, Peer::join(store).await);
    if !peer.keeps_queue() {
        return;
    }
    let lease = peer.take_for("settled", BRIEF).await;
    let (wait, _) = waiter.queue("settled").await;
    let begun = Instant::now();
    // Some stores serve the queue at the very end of the lease, others when somebody asks.
    while peer.holders("settled").await == [lease.owner.as_str()] {
        assert!(begun.elapsed() < SOON, "still held");
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(
        peer.release("settled", &lease.owner).await,
        Released::NotOurs
    );
    assert_eq!(peer.holders("settled").await, [wait.owner.as_str()]);
}

/// One that waits and then withdraws was no holder.
pub async fn a_withdrawal_answers_not_ours<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let lease = peer.take("waited").await;
    let (wait, _) = peer.queue("waited").await;
    assert_eq!(peer.release("waited", &wait.owner).await, Released::NotOurs);
    assert!(peer.waiters("waited").await.is_empty());
    assert_eq!(peer.holders("waited").await, [lease.owner.as_str()]);
}

/// A release that was dropped after any number of polls can be repeated, and the name is free.
pub async fn b25_a_dropped_release_can_be_repeated<T: Topology>(store: &T) {
    use leasehold::backend::Backend;
    let peer = Peer::join(store).await;
    for polls in 0..12 {
        let lease = peer.take("cut short").await;
        let release = peer.backend.release(&lease.name, &lease.owner, None);
        super::peer::poll_times(release, polls).await;
        peer.release("cut short", &lease.owner).await;
        assert!(peer.status("cut short").await.is_free(), "{polls}");
    }
}
