//! A minimum hold: the name stays taken for so long after the grant, whatever the holder does.

use std::time::Duration;

use leasehold::{
    ErrorKind,
    backend::{Attempt, Backend, HolderKind, Released, Renewed, Request},
};
use tokio::time::Instant;

use super::{Peer, SOON, Topology, peer::request};

const MIN_HOLD: Duration = Duration::from_secs(3);

fn brief<B: Backend>(peer: &Peer<B>, text: &str) -> Request {
    let mut request = request(text, &peer.owner());
    request.min_hold = Some(MIN_HOLD);
    request
}

/// Whether the store can; if not, it must say so.
async fn supported<B: Backend>(peer: &Peer<B>) -> bool {
    if peer.backend.capabilities().min_hold {
        return true;
    }
    let refused = peer
        .backend
        .acquire(&brief(peer, "unsupported"))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(peer.status("unsupported").await.is_free());
    false
}

/// A release before the minimum keeps the name taken for the rest of it, and then it is free.
pub async fn an_early_release_keeps_the_name<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    if !supported(&peer).await {
        return;
    }
    let begun = Instant::now();
    let lease = peer.granted(&brief(&peer, "cron")).await;
    let kept = peer
        .backend
        .release(&lease.name, &lease.owner, Some(MIN_HOLD))
        .await
        .unwrap();
    assert_eq!(kept, Released::Kept);
    let status = other.status("cron").await;
    let holder = &status.holders[0];
    assert_eq!(holder.kind, HolderKind::Kept);
    assert_eq!(holder.owner().as_ref(), Some(&lease.owner));
    assert!(
        holder.remaining.is_some_and(|left| left <= MIN_HOLD),
        "{holder:?}"
    );
    let attempt = other.ask(&request("cron", &other.owner())).await;
    assert!(matches!(attempt, Attempt::Held(_)), "{attempt:?}");
    let next = other
        .granted_within(&request("cron", &other.owner()), SOON)
        .await;
    let slack = Duration::from_millis(5); // both round to whole milliseconds
    assert!(
        begun.elapsed() + slack >= MIN_HOLD,
        "free after {:?}",
        begun.elapsed()
    );
    assert!(next.grant.token > lease.grant.token);
}

/// While its minimum hold runs, the owner that released is used up.
pub async fn an_owner_that_released_is_used_up<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    if !supported(&peer).await {
        return;
    }
    let request = brief(&peer, "used up");
    let lease = peer.granted(&request).await;
    peer.backend
        .release(&lease.name, &lease.owner, Some(MIN_HOLD))
        .await
        .unwrap();
    assert_eq!(peer.ask(&request).await, Attempt::Ended);
    assert_eq!(peer.renew(&lease, SOON).await, Renewed::NotOurs);
    let left = peer.status("used up").await.holders[0].remaining.unwrap();
    assert!(
        left <= MIN_HOLD,
        "a repeated call lengthened it to {left:?}"
    );
}

/// A release after the minimum is an ordinary one.
pub async fn a_late_release_frees_the_name<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    if !supported(&peer).await {
        return;
    }
    let lease = peer.granted(&brief(&peer, "late")).await;
    tokio::time::sleep(MIN_HOLD + Duration::from_millis(50)).await;
    let released = peer
        .backend
        .release(&lease.name, &lease.owner, Some(MIN_HOLD))
        .await
        .unwrap();
    assert_eq!(released, Released::Released);
    assert!(peer.status("late").await.is_free());
}

/// A TTL shorter than the minimum does not free the name early.
pub async fn a_minimum_above_the_ttl_counts<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    if !supported(&peer).await {
        return;
    }
    let mut request = brief(&peer, "longer than ttl");
    request.ttl = leasehold::backend::Ttl::new(super::SHORT).unwrap();
    let begun = Instant::now();
    let lease = peer.granted(&request).await;
    peer.backend
        .release(&lease.name, &lease.owner, Some(MIN_HOLD))
        .await
        .unwrap();
    let next = super::peer::request("longer than ttl", &other.owner());
    other.granted_within(&next, SOON).await;
    let slack = Duration::from_millis(5);
    assert!(
        begun.elapsed() + slack >= MIN_HOLD,
        "free after {:?}",
        begun.elapsed()
    );
}

/// A waiter behind a kept name is served when the minimum is over.
pub async fn a_waiter_is_served_after_the_minimum<T: Topology>(store: &T) {
    let (peer, waiter) = (Peer::join(store).await, Peer::join(store).await);
    if !supported(&peer).await {
        return;
    }
    let lease = peer.granted(&brief(&peer, "waited for")).await;
    let (wait, _) = waiter.queue("waited for").await;
    peer.backend
        .release(&lease.name, &lease.owner, Some(MIN_HOLD))
        .await
        .unwrap();
    waiter.granted_within(&wait, SOON).await;
}
