//! Ending another's lease, as an operator.

use std::time::Duration;

use leasehold::backend::{Backend, Event, HolderKind, Released};

use super::{
    LONG, Peer, SOON, Topology,
    peer::{name, request},
};

async fn force<B: Backend>(peer: &Peer<B>, text: &str, observed: &str) -> bool {
    peer.backend.force(&name(text), observed).await.unwrap()
}

/// Only what was observed is ended: another owner in its place stays.
pub async fn only_the_observed_lease_ends<T: Topology>(store: &T) {
    let (peer, operator) = (Peer::join(store).await, Peer::join(store).await);
    let old = peer.take("observed").await;
    peer.release("observed", &old.owner).await;
    let new = peer.take("observed").await;
    assert!(!force(&operator, "observed", old.owner.as_str()).await);
    assert!(!force(&operator, "observed", "").await);
    assert!(!force(&operator, "observed", "something else").await);
    assert!(!force(&operator, "never locked", new.owner.as_str()).await);
    assert_eq!(peer.holders("observed").await, [new.owner.as_str()]);
    assert!(force(&operator, "observed", new.owner.as_str()).await);
    assert!(peer.status("observed").await.is_free());
    assert_eq!(
        peer.release("observed", &new.owner).await,
        Released::NotOurs
    );
    assert!(
        !force(&operator, "observed", new.owner.as_str()).await,
        "only once"
    );
}

/// The one that was put out is told.
pub async fn the_victim_is_told<T: Topology>(store: &T) {
    let (mut victim, operator) = (Peer::join(store).await, Peer::join(store).await);
    // A store may learn where its clients are only from those that wait: let it be one.
    let other = victim.take("other").await;
    let (wait, _) = victim.queue("other").await;
    victim.release("other", &wait.owner).await;
    victim.release("other", &other.owner).await;
    let lease = victim.take("victim").await;
    assert!(force(&operator, "victim", lease.owner.as_str()).await);
    let event = victim.event(&lease.owner).await;
    assert_eq!(event, Event::Revoked { owner: lease.owner });
}

/// The first waiter is served by the force itself.
pub async fn the_first_waiter_is_served<T: Topology>(store: &T) {
    let (peer, mut waiter) = (Peer::join(store).await, Peer::join(store).await);
    let lease = peer.take("forced").await;
    let (first, _) = waiter.queue("forced").await;
    let (second, _) = waiter.queue("forced").await;
    assert!(force(&peer, "forced", lease.owner.as_str()).await);
    if waiter.backend.capabilities().hand_off {
        let (token, _) = waiter.granted_by_event(&first.owner).await;
        assert!(token > lease.grant.token);
    }
    waiter.granted_within(&first, SOON).await;
    if waiter.keeps_queue() {
        assert_eq!(waiter.waiters("forced").await, [second.owner.as_str()]);
    }
}

/// A waiter is no lease: it is not put out.
pub async fn a_waiter_is_not_forced<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    if !peer.keeps_queue() {
        return;
    }
    peer.take("waited").await;
    let (wait, _) = peer.queue("waited").await;
    assert!(!force(&peer, "waited", wait.owner.as_str()).await);
    assert_eq!(peer.waiters("waited").await, [wait.owner.as_str()]);
}

/// A name that is kept for its minimum hold can be freed.
pub async fn a_kept_name_is_freed<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    if super::lacks(peer.backend.capabilities().min_hold, "min_hold") {
        return;
    }
    let mut request = request("kept", &peer.owner());
    request.min_hold = Some(LONG);
    let lease = peer.granted(&request).await;
    let long = Some(Duration::from_secs(30));
    assert_eq!(
        peer.backend
            .release(&lease.name, &lease.owner, long)
            .await
            .unwrap(),
        Released::Kept
    );
    let holder = peer.status("kept").await.holders.remove(0);
    assert_eq!(holder.kind, HolderKind::Kept);
    assert!(force(&peer, "kept", &holder.value).await);
    assert!(peer.status("kept").await.is_free());
}
