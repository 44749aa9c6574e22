//! Several locks in one step, and what else a store may be able to do with a lease.

use leasehold::{
    ErrorKind,
    backend::{Attempt, Backend, Mode, Renewed, Request},
};

use super::{LONG, Lease, Peer, SOON, Topology, peer::request, peer::waiting};

fn requests<B: Backend>(peer: &Peer<B>, names: &[&str]) -> Vec<Request> {
    names
        .iter()
        .map(|name| request(name, &peer.owner()))
        .collect()
}

/// All are taken in one step, or none is.
pub async fn all_are_taken_or_none<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    let names = ["several/c", "several/a", "several/b"];
    if !peer.backend.capabilities().many {
        let refused = peer
            .backend
            .acquire_all(&requests(&peer, &names))
            .await
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        return;
    }
    let single = other.take("several/b").await;
    assert_eq!(
        peer.backend
            .acquire_all(&requests(&peer, &names))
            .await
            .unwrap(),
        None
    );
    assert!(peer.status("several/a").await.is_free());
    assert!(peer.status("several/c").await.is_free());
    other.release("several/b", &single.owner).await;
    let requests = requests(&peer, &names);
    let grants = peer
        .backend
        .acquire_all(&requests)
        .await
        .unwrap()
        .expect("all are free");
    assert_eq!(grants.len(), names.len());
    for (request, grant) in requests.iter().zip(&grants) {
        let holder = other.status(request.name.as_str()).await.holders.remove(0);
        assert_eq!(holder.value, request.owner.as_str());
        assert_eq!(holder.token, Some(grant.token));
        other.release(request.name.as_str(), &request.owner).await;
    }
    assert!(
        other
            .backend
            .list("several/", None)
            .await
            .unwrap()
            .entries
            .is_empty()
    );
}

/// Taking several at once does not go past one that waits.
pub async fn taking_several_never_barges<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    let able = peer.backend.capabilities();
    if !able.many || !able.shared || !able.fair {
        return;
    }
    let mut reader = request("barged/a", &other.owner());
    reader.mode = Mode::Read;
    other.granted(&reader).await;
    let (writer, _) = other.queue("barged/a").await;
    let mut both = requests(&peer, &["barged/a", "barged/b"]);
    both[0].mode = Mode::Read;
    assert_eq!(peer.backend.acquire_all(&both).await.unwrap(), None);
    assert_eq!(peer.waiters("barged/a").await, [writer.owner.as_str()]);
    assert!(peer.status("barged/b").await.is_free());
}

/// A writer becomes a reader under the same fencing token, and readers that wait come in.
pub async fn a_writer_becomes_a_reader<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    let lease = peer.take("downgraded").await;
    if !peer.backend.capabilities().downgrade {
        let refused = peer
            .backend
            .downgrade(&lease.renewal(LONG))
            .await
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        return;
    }
    let mut reader = request("downgraded", &other.owner());
    reader.mode = Mode::Read;
    other.queued(&waiting(reader.clone(), 0, None)).await;
    let answer = peer.backend.downgrade(&lease.renewal(LONG)).await.unwrap();
    assert!(matches!(answer, Renewed::Renewed(_)));
    let read = other.granted_within(&waiting(reader, 1, None), SOON).await;
    assert_eq!(read.grant.token, lease.grant.token);
    let attempt = other.ask(&request("downgraded", &other.owner())).await;
    assert!(matches!(attempt, Attempt::Held(_)), "{attempt:?}");
    let reader = Lease {
        mode: Mode::Read,
        ..lease
    };
    assert!(matches!(
        peer.renew(&reader, LONG).await,
        Renewed::Renewed(_)
    ));
    peer.release("downgraded", &reader.owner).await;
    assert_eq!(other.holders("downgraded").await, [read.owner.as_str()]);
}

/// A lease that is over does not become a reader's.
pub async fn b02_only_a_lease_in_force_becomes_a_reader<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    if super::lacks(peer.backend.capabilities().downgrade, "downgrade") {
        return;
    }
    let lease = peer.take("over").await;
    peer.release("over", &lease.owner).await;
    assert_eq!(
        peer.backend.downgrade(&lease.renewal(LONG)).await.unwrap(),
        Renewed::Missing
    );
    assert!(peer.status("over").await.is_free());
    let theirs = other.take("over").await;
    assert_eq!(
        peer.backend.downgrade(&lease.renewal(LONG)).await.unwrap(),
        Renewed::NotOurs
    );
    assert_eq!(peer.holders("over").await, [theirs.owner.as_str()]);
}

/// A note is seen by those who inspect, ends with the lease, and is only the holder's to write.
pub async fn a_note_is_seen_until_the_lease_ends<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    let lease = peer.take("noted").await;
    if !peer.backend.capabilities().notes {
        let refused = peer
            .backend
            .annotate(&lease.renewal(LONG), Some("x"))
            .await
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        return;
    }
    for note in ["at work on 7", "ünïcode;\n\"quoted\""] {
        let answer = peer
            .backend
            .annotate(&lease.renewal(LONG), Some(note))
            .await
            .unwrap();
        assert!(matches!(answer, Renewed::Renewed(_)));
        assert_eq!(
            other.status("noted").await.holders[0].note.as_deref(),
            Some(note)
        );
    }
    peer.backend
        .annotate(&lease.renewal(LONG), None)
        .await
        .unwrap();
    assert_eq!(other.status("noted").await.holders[0].note, None);
    peer.backend
        .annotate(&lease.renewal(LONG), Some("last words"))
        .await
        .unwrap();
    peer.release("noted", &lease.owner).await;
    let next = other.take_for("noted", SOON).await;
    assert_eq!(other.status("noted").await.holders[0].note, None);
    let answer = peer
        .backend
        .annotate(&lease.renewal(LONG), Some("late"))
        .await
        .unwrap();
    assert_eq!(answer, Renewed::NotOurs);
    let holder = other.status("noted").await.holders.remove(0);
    assert_eq!(
        (holder.value.as_str(), holder.note),
        (next.owner.as_str(), None)
    );
}
