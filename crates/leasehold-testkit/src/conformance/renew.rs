//! Lengthening leases.

use std::time::Duration;

use leasehold::backend::{Backend, Released, Renewed};
use tokio::time::{Instant, sleep};

use super::{LONG, Lease, Peer, SHORT, SOON, Topology, peer::request};

async fn remaining<B: Backend>(peer: &Peer<B>, text: &str) -> Duration {
    peer.status(text).await.holders[0].remaining.unwrap()
}

async fn ended<B: Backend>(peer: &Peer<B>, text: &str) {
    let begun = Instant::now();
    while !peer.status(text).await.is_free() {
        assert!(begun.elapsed() < SOON, "still held");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A renewal lengthens the lease, and says to how much.
pub async fn a_renewal_lengthens<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let lease = peer.take_for("longer", SOON).await;
    let Renewed::Renewed(ttl) = peer.renew(&lease, LONG).await else {
        panic!("not renewed")
    };
    assert!(ttl.get() >= LONG);
    assert!(remaining(&peer, "longer").await > LONG - SOON);
}

/// A lease that is renewed in time is never free, for longer than its TTL.
pub async fn renewals_keep_a_lease<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    let ttl = Duration::from_secs(5);
    let lease = peer.take_for("renewed", ttl).await;
    let begun = Instant::now();
    while begun.elapsed() < ttl * 5 / 4 {
        assert!(matches!(peer.renew(&lease, ttl).await, Renewed::Renewed(_)));
        assert_eq!(other.holders("renewed").await, [lease.owner.as_str()]);
        sleep(ttl / 20).await;
    }
}

/// A renewal to less than what is left changes nothing.
pub async fn b03_a_renewal_never_shortens<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let lease = peer.take("shorter").await;
    assert!(matches!(
        peer.renew(&lease, SHORT).await,
        Renewed::Renewed(_)
    ));
    assert!(remaining(&peer, "shorter").await > LONG - SOON);
}

/// A lease that was released or forced away is missing, and a renewal does not bring it back.
pub async fn b02_a_renewal_never_creates<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let released = peer.take("released").await;
    peer.release("released", &released.owner).await;
    let forced = peer.take("forced").await;
    assert!(
        peer.backend
            .force(&forced.name, forced.owner.as_str())
            .await
            .unwrap()
    );
    for lease in [released, forced] {
        assert_eq!(peer.renew(&lease, LONG).await, Renewed::Missing);
        assert!(peer.status(lease.name.as_str()).await.is_free());
    }
}

/// A lease that ran out is missing, and a renewal does not bring it back.
pub async fn b02_an_expired_lease_is_not_renewed<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let lease = peer.take_for("expired", SHORT).await;
    ended(&peer, "expired").await;
    assert_eq!(peer.renew(&lease, LONG).await, Renewed::Missing);
    assert!(peer.status("expired").await.is_free());
}

/// A lease that passed to another is not ours, and the other's stays as it is.
pub async fn b02_a_stranger_s_lease_is_not_lengthened<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    let lease = peer.take_for("passed on", SHORT).await;
    ended(&peer, "passed on").await;
    let theirs = other.take_for("passed on", SOON).await;
    assert_eq!(peer.renew(&lease, LONG).await, Renewed::NotOurs);
    let status = peer.status("passed on").await;
    assert_eq!(status.holders[0].value, theirs.owner.as_str());
    assert_eq!(status.holders[0].token, Some(theirs.grant.token));
    assert!(status.holders[0].remaining.unwrap() <= SOON);
}

/// The same owner under another fencing token is another lease.
pub async fn the_fencing_token_is_compared<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    if !peer.keeps_queue() {
        return;
    }
    let request = request("same owner", &peer.owner());
    let old = peer.granted(&request).await;
    assert_eq!(
        peer.release("same owner", &request.owner).await,
        Released::Released
    );
    let new = peer.granted(&request).await;
    assert!(new.grant.token > old.grant.token);
    assert_eq!(peer.renew(&old, LONG * 2).await, Renewed::NotOurs);
    assert!(remaining(&peer, "same owner").await <= LONG);
    assert!(matches!(peer.renew(&new, LONG).await, Renewed::Renewed(_)));
}

/// A batch is answered item by item, in its order.
pub async fn a_batch_is_answered_in_order<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    assert!(peer.backend.renew(&[]).await.is_empty());
    let mut leases: Vec<Lease> = Vec::new();
    for index in 0..40 {
        let lease = peer.take(&format!("batch {index}")).await;
        if index % 4 == 1 {
            peer.release(lease.name.as_str(), &lease.owner).await;
        } else if index % 4 == 2 {
            peer.release(lease.name.as_str(), &lease.owner).await;
            other.take(lease.name.as_str()).await;
        }
        leases.push(lease);
    }
    let renewals: Vec<_> = leases.iter().map(|lease| lease.renewal(LONG)).collect();
    let answers = peer.backend.renew(&renewals).await;
    assert_eq!(answers.len(), leases.len());
    for (index, answer) in answers.into_iter().enumerate() {
        let answer = answer.unwrap();
        let as_expected = match index % 4 {
            1 => answer == Renewed::Missing,
            2 => answer == Renewed::NotOurs,
            _ => matches!(answer, Renewed::Renewed(_)),
        };
        assert!(as_expected, "{index}: {answer:?}");
    }
}

/// A batch of any size is answered in full.
pub async fn a_large_batch_is_answered_in_full<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let mut renewals = Vec::new();
    for index in 0..600 {
        renewals.push(peer.take(&format!("many {index}")).await.renewal(LONG));
    }
    let answers = peer.backend.renew(&renewals).await;
    assert_eq!(answers.len(), renewals.len());
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Ok(Renewed::Renewed(_))))
    );
}
