//! Readers and permits.

use std::time::Duration;

use leasehold::{
    ErrorKind,
    backend::{Attempt, Backend, Mode, Released, Renewed, Request, Ttl},
};

use super::{
    BRIEF, LONG, Peer, SHORT, SOON, Topology,
    peer::{request, waiting},
    share,
};

fn read<B: Backend>(peer: &Peer<B>, text: &str) -> Request {
    let mut request = request(text, &peer.owner());
    request.mode = Mode::Read;
    request
}

fn permit<B: Backend>(peer: &Peer<B>, text: &str, limit: u32, weight: u32) -> Request {
    let mut request = request(text, &peer.owner());
    request.mode = Mode::permits(limit, weight).unwrap();
    request
}

/// Whether the store can; if not, it must say so.
async fn supported<B: Backend>(peer: &Peer<B>) -> bool {
    let able = peer.backend.capabilities().shared;
    able || refused(peer, &read(peer, "unsupported")).await
}

/// Whether the store counts permits; if not, it must say so.
async fn has_permits<B: Backend>(peer: &Peer<B>) -> bool {
    let able = peer.backend.capabilities().permits;
    able || refused(peer, &permit(peer, "unsupported", 2, 1)).await
}

/// Never: it is refused.
async fn refused<B: Backend>(peer: &Peer<B>, request: &Request) -> bool {
    let refused = peer.backend.acquire(request).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(peer.status("unsupported").await.is_free());
    false
}

fn is_held(attempt: &Attempt) -> bool {
    matches!(attempt, Attempt::Held(_))
}

/// Readers hold together under one fencing token, and no writer with them.
pub async fn readers_hold_together<T: Topology>(store: &T) {
    let (one, two) = (Peer::join(store).await, Peer::join(store).await);
    if !supported(&one).await {
        return;
    }
    let first = one.granted(&read(&one, "rw")).await;
    let second = two.granted(&read(&two, "rw")).await;
    let able = one.backend.capabilities();
    assert!(share(able, first.grant.token, second.grant.token));
    assert_eq!(one.holders("rw").await.len(), 2);
    assert!(is_held(&one.ask(&request("rw", &one.owner())).await));
    one.release("rw", &first.owner).await;
    assert!(is_held(&one.ask(&request("rw", &one.owner())).await));
    two.release("rw", &second.owner).await;
    let writer = one.take("rw").await;
    assert!(writer.grant.token > first.grant.token);
    assert!(is_held(&two.ask(&read(&two, "rw")).await));
    one.release("rw", &writer.owner).await;
    let next = two.granted(&read(&two, "rw")).await;
    assert!(next.grant.token > writer.grant.token);
}

/// A reader does not overtake a writer that waits.
pub async fn b32_a_reader_does_not_overtake_a_waiting_writer<T: Topology>(store: &T) {
    let (one, two) = (Peer::join(store).await, Peer::join(store).await);
    if !supported(&one).await || !one.backend.capabilities().fair {
        return;
    }
    let reader = one.granted(&read(&one, "starved")).await;
    let (writer, _) = two.queue("starved").await;
    assert!(is_held(&one.ask(&read(&one, "starved")).await));
    let behind = waiting(read(&one, "starved"), 0, None);
    one.queued(&behind).await;
    one.release("starved", &reader.owner).await;
    let written = two.granted_within(&writer, SOON).await;
    assert!(written.grant.token > reader.grant.token);
    two.release("starved", &writer.owner).await;
    one.granted_within(&behind, SOON).await;
}

/// The readers at the head of the queue are served together, up to the writer behind them.
pub async fn leading_readers_are_served_together<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    if !supported(&peer).await || !peer.backend.capabilities().hand_off {
        return;
    }
    let writer = peer.take("together").await;
    let readers = [0; 3].map(|_| waiting(read(&peer, "together"), 0, None));
    for reader in &readers {
        peer.queued(reader).await;
    }
    let (second_writer, _) = peer.queue("together").await;
    let last = waiting(read(&peer, "together"), 0, None);
    peer.queued(&last).await;
    peer.release("together", &writer.owner).await;
    let mut holders = peer.holders("together").await;
    let mut expected = readers.map(|reader| reader.owner.as_str().to_owned());
    holders.sort();
    expected.sort();
    assert_eq!(holders, expected);
    let behind = [second_writer.owner.as_str(), last.owner.as_str()];
    assert_eq!(peer.waiters("together").await, behind);
}

/// When a waiting writer gives up, the readers behind it join those that hold.
pub async fn a_writer_that_withdraws_lets_readers_in<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    if !supported(&peer).await || !peer.backend.capabilities().hand_off {
        return;
    }
    peer.granted(&read(&peer, "given up")).await;
    let (writer, _) = peer.queue("given up").await;
    let reader = waiting(read(&peer, "given up"), 0, None);
    peer.queued(&reader).await;
    peer.release("given up", &writer.owner).await;
    assert_eq!(peer.holders("given up").await.len(), 2);
    assert!(peer.waiters("given up").await.is_empty());
}

/// Permits are given up to the limit, by weight.
pub async fn permits_are_given_up_to_the_limit<T: Topology>(store: &T) {
    let (one, two) = (Peer::join(store).await, Peer::join(store).await);
    if !has_permits(&one).await {
        return;
    }
    let pair = one.granted(&permit(&one, "pool", 3, 2)).await;
    let single = two.granted(&permit(&two, "pool", 3, 1)).await;
    let able = one.backend.capabilities();
    assert!(share(able, pair.grant.token, single.grant.token));
    assert!(is_held(&two.ask(&permit(&two, "pool", 3, 1)).await));
    two.release("pool", &single.owner).await;
    assert!(is_held(&two.ask(&permit(&two, "pool", 3, 2)).await));
    one.release("pool", &pair.owner).await;
    one.granted(&permit(&one, "pool", 3, 3)).await;
}

/// A permit taken again by its owner is the same permit.
pub async fn b06_a_repeated_permit_is_taken_once<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    if !has_permits(&peer).await {
        return;
    }
    let request = permit(&peer, "once", 2, 1);
    for _ in 0..3 {
        peer.granted(&request).await;
    }
    peer.granted(&permit(&peer, "once", 2, 1)).await;
    assert_eq!(
        peer.release("once", &request.owner).await,
        Released::Released
    );
    assert_eq!(peer.holders("once").await.len(), 1);
}

/// Another limit is a conflict for a try, and never a co-holder; a waiter waits for the end.
pub async fn another_limit_conflicts<T: Topology>(store: &T) {
    let (one, two) = (Peer::join(store).await, Peer::join(store).await);
    if !has_permits(&one).await {
        return;
    }
    let lease = one.granted(&permit(&one, "limits", 3, 1)).await;
    let attempt = two.ask(&permit(&two, "limits", 2, 1)).await;
    assert_eq!(attempt, Attempt::Conflict { limit: 3 });
    let wait = waiting(permit(&two, "limits", 2, 1), 0, None);
    two.queued(&wait).await;
    assert_eq!(two.holders("limits").await, [lease.owner.as_str()]);
    one.release("limits", &lease.owner).await;
    two.granted_within(&wait, SOON).await;
}

/// Each holder's lease ends by itself: a crashed one frees its permit.
pub async fn b31_a_silent_holder_frees_its_permit<T: Topology>(store: &T) {
    let (one, two) = (Peer::join(store).await, Peer::join(store).await);
    if !has_permits(&one).await {
        return;
    }
    let kept = one.granted(&permit(&one, "crashed", 2, 1)).await;
    let mut silent = permit(&two, "crashed", 2, 1);
    silent.ttl = Ttl::new(BRIEF).unwrap();
    two.granted(&silent).await;
    let wait = waiting(permit(&one, "crashed", 2, 1), 0, None);
    let queued = one.queued(&wait).await;
    // Nodes that vote are asked again a moment later than that.
    let moment = if one.backend.capabilities().fresh_owners {
        SOON
    } else {
        Duration::ZERO
    };
    assert!(
        queued.change_in <= BRIEF + moment,
        "the earliest end counts, not {:?}",
        queued.change_in
    );
    one.granted_within(&wait, SOON).await;
    assert!(
        one.holders("crashed")
            .await
            .contains(&kept.owner.as_str().to_owned())
    );
}

/// A reader's renewal lengthens its own lease only.
pub async fn a_reader_renews_its_own_lease<T: Topology>(store: &T) {
    let (one, two) = (Peer::join(store).await, Peer::join(store).await);
    if !supported(&one).await {
        return;
    }
    let mut brief = read(&one, "own lease");
    brief.ttl = Ttl::new(SHORT).unwrap();
    let brief = one.granted(&brief).await;
    let long = two.granted(&read(&two, "own lease")).await;
    assert!(matches!(two.renew(&long, LONG).await, Renewed::Renewed(_)));
    let begun = tokio::time::Instant::now();
    while two.holders("own lease").await != [long.owner.as_str()] {
        assert!(begun.elapsed() < SOON, "the brief lease lives on");
        tokio::time::sleep(SHORT / 10).await;
    }
    assert_eq!(one.renew(&brief, LONG).await, Renewed::NotOurs);
    assert_eq!(
        one.release("own lease", &brief.owner).await,
        Released::NotOurs
    );
    assert_eq!(two.holders("own lease").await, [long.owner.as_str()]);
}
