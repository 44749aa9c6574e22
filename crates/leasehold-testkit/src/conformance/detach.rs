//! Leases that outlive the process that took them.

use std::time::Duration;

use leasehold::{
    ErrorKind,
    backend::{Attempt, Backend, Released, Renewed},
};

use super::{BRIEF, LONG, Lease, Peer, SOON, Topology, peer::request};

/// Whether the store can; if not, it must say so.
async fn supported<B: Backend>(peer: &Peer<B>) -> bool {
    if peer.backend.capabilities().detach {
        return true;
    }
    let lease = peer.take("unsupported").await;
    let refused = peer.backend.detach(&lease.renewal(LONG)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    false
}

async fn detach<B: Backend>(peer: &Peer<B>, lease: &Lease, ttl: Duration) -> Renewed {
    peer.backend.detach(&lease.renewal(ttl)).await.unwrap()
}

/// A detached lease stays when its client is gone, and another client can renew and release it.
pub async fn a_detached_lease_outlives_its_client<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    if !supported(&peer).await {
        return;
    }
    let lease = peer.take("handed on").await;
    assert!(matches!(
        detach(&peer, &lease, LONG).await,
        Renewed::Renewed(_)
    ));
    drop(peer);
    let attempt = other.ask(&request("handed on", &other.owner())).await;
    assert!(matches!(attempt, Attempt::Held(_)), "{attempt:?}");
    assert_eq!(other.holders("handed on").await, [lease.owner.as_str()]);
    assert!(matches!(
        other.renew(&lease, LONG * 2).await,
        Renewed::Renewed(_)
    ));
    assert_eq!(
        other.release("handed on", &lease.owner).await,
        Released::Released
    );
}

/// A detached lease ends with its TTL all the same.
pub async fn a_detached_lease_ends_with_its_ttl<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    if !supported(&peer).await {
        return;
    }
    let lease = peer.take_for("ends", BRIEF).await;
    detach(&peer, &lease, BRIEF).await;
    drop(peer);
    other
        .granted_within(&request("ends", &other.owner()), SOON)
        .await;
}

/// Detaching compares owner and fencing token as a renewal does, and creates nothing.
pub async fn detaching_compares_as_a_renewal_does<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    if !supported(&peer).await {
        return;
    }
    let request = request("compared", &peer.owner());
    let old = peer.granted(&request).await;
    peer.release("compared", &request.owner).await;
    assert_eq!(detach(&peer, &old, LONG).await, Renewed::Missing);
    assert!(peer.status("compared").await.is_free());
    peer.take("compared").await;
    assert_eq!(detach(&peer, &old, LONG).await, Renewed::NotOurs);
}

/// Where the store notices that a holder's process is gone, the next has the lock at once; else
/// when the lease ends.
pub async fn a_gone_holder_s_lock_passes_on<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    let notices = peer.backend.capabilities().notices_death;
    peer.take_for("orphan", if notices { LONG } else { BRIEF })
        .await;
    let (wait, _) = other.queue("orphan").await;
    drop(peer);
    other.granted_within(&wait, SOON).await;
}
