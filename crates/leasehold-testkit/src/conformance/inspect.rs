//! Looking at what is held and waited for.

use std::collections::BTreeMap;

use leasehold::backend::{Backend, Status};

use super::{Peer, SHORT, SOON, Topology, peer::name};

async fn list<B: Backend>(peer: &Peer<B>, prefix: &str) -> Vec<Status> {
    let (mut entries, mut after) = (Vec::new(), None);
    for _ in 0..10_000 {
        let page = peer.backend.list(prefix, after.as_deref()).await.unwrap();
        entries.extend(page.entries);
        match page.next {
            Some(next) => after = Some(next),
            None => return entries,
        }
    }
    panic!("the listing has no end")
}

async fn names<B: Backend>(peer: &Peer<B>, prefix: &str) -> Vec<String> {
    let mut names: Vec<_> = list(peer, prefix)
        .await
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    names.sort();
    names
}

/// Inspection and listing change nothing: not the holder, not its remaining time, not the queue.
pub async fn looking_changes_nothing<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    if !peer.keeps_queue() {
        return;
    }
    let lease = peer.take("looked at").await;
    let (wait, _) = other.queue("looked at").await;
    let first = peer.status("looked at").await;
    for _ in 0..5 {
        other.status("looked at").await;
        other.status("never there").await;
        list(&other, "").await;
    }
    let last = peer.status("looked at").await;
    assert_eq!(last.holders[0].value, lease.owner.as_str());
    assert_eq!(last.holders[0].token, first.holders[0].token);
    assert!(last.holders[0].remaining <= first.holders[0].remaining);
    assert_eq!(last.waiters.len(), 1);
    assert_eq!(last.waiters[0].value, wait.owner.as_str());
    assert_eq!(last.waiters[0].ticket, first.waiters[0].ticket);
    assert!(last.waiters[0].alive_for <= first.waiters[0].alive_for);
    assert_eq!(names(&peer, "").await, ["looked at"]);
}

/// A name that was never locked is free and has no waiters.
pub async fn an_unknown_name_is_free<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let status = peer.backend.inspect(&name("unknown")).await.unwrap();
    assert_eq!(status.name, "unknown");
    assert!(status.is_free() && status.waiters.is_empty());
    assert!(list(&peer, "").await.is_empty());
}

/// The waiters are in the order of the queue.
pub async fn waiters_are_in_order<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    if !peer.keeps_queue() {
        return;
    }
    peer.take("line").await;
    let mut line = Vec::new();
    for _ in 0..12 {
        line.push(peer.queue("line").await.0.owner.as_str().to_owned());
    }
    assert_eq!(peer.waiters("line").await, line);
}

/// The prefix of a listing is text, not a pattern.
pub async fn a_prefix_is_taken_literally<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let odd = [
        "a*b", "aXb", "a%b", "a_b", "a?b", "a[bc]", "ab", "a\\b", "ä", "A*B",
    ];
    for text in odd {
        peer.take(text).await;
    }
    for prefix in odd {
        let mut expected: Vec<_> = odd.iter().filter(|text| text.starts_with(prefix)).collect();
        expected.sort();
        assert_eq!(
            names(&peer, prefix).await.iter().collect::<Vec<_>>(),
            expected,
            "{prefix}"
        );
    }
    let mut with_a: Vec<_> = odd
        .into_iter()
        .filter(|text| text.starts_with('a'))
        .collect();
    with_a.sort_unstable();
    assert_eq!(names(&peer, "a").await, with_a);
    assert_eq!(names(&peer, "").await.len(), odd.len());
    assert!(names(&peer, "none").await.is_empty());
}

/// Every name that is held throughout is on exactly one page.
pub async fn pages_miss_nothing_and_repeat_nothing<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let mut held = BTreeMap::new();
    for index in 0..700 {
        let text = format!("page/{index}");
        let lease = peer.take(&text).await;
        held.insert(text, lease);
    }
    let listed = list(&peer, "page/").await;
    assert_eq!(listed.len(), held.len());
    for entry in listed {
        let lease = held.remove(&entry.name).expect("each name once");
        assert_eq!(entry.holders.len(), 1);
        assert_eq!(entry.holders[0].value, lease.owner.as_str());
        assert_eq!(entry.holders[0].token, Some(lease.grant.token));
    }
}

/// Names that are free are not listed: released, expired, or only tried.
pub async fn free_names_are_not_listed<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let released = peer.take("released").await;
    peer.release("released", &released.owner).await;
    peer.take_for("expired", SHORT).await;
    peer.take("held").await;
    let begun = tokio::time::Instant::now();
    while names(&peer, "").await != ["held"] {
        assert!(begun.elapsed() < SOON, "{:?}", names(&peer, "").await);
        tokio::time::sleep(SHORT / 10).await;
    }
}
