//! Any allowed text is a name, and two texts are two names.

use leasehold::backend::{Attempt, Backend, Released};

use super::{Peer, Topology, peer::request};

fn odd_names() -> Vec<String> {
    let odd = [
        "a",
        "A",
        "a ",
        " a",
        "a/b",
        "a/b/",
        "/",
        "//",
        ".",
        "..",
        "../a",
        "a:b",
        "a;b",
        "a,b",
        "a*",
        "a?",
        "a[b]",
        "a%",
        "a%2F",
        "a_b",
        "a\\b",
        "a'b",
        "a\"b",
        "'; DROP TABLE locks; --",
        "{a}",
        "{}",
        "}{",
        "a}b",
        "a{b",
        "a~b",
        "null",
        "0",
        "-1",
        "$(x)",
        "`x`",
        "#",
        "a\u{e9}",
        "ae\u{301}",
        "\u{1F512}",
        "\u{202E}abc",
        "\u{feff}a",
        "name with spaces",
        "lock:a",
        "ß",
        "SS",
        "ss",
    ];
    let mut names: Vec<String> = odd.into_iter().map(Into::into).collect();
    names.push("x".repeat(512));
    names.push("\u{1F512}".repeat(128));
    names
}

/// Every odd name works like any other, is reported as it was given, and can be released.
pub async fn every_allowed_name_works<T: Topology>(store: &T) {
    let (peer, other) = (Peer::join(store).await, Peer::join(store).await);
    for text in odd_names() {
        let lease = peer.take(&text).await;
        let attempt = other.ask(&request(&text, &other.owner())).await;
        assert!(matches!(attempt, Attempt::Held(_)), "{text:?}: {attempt:?}");
        let status = other.status(&text).await;
        assert_eq!(status.name, text);
        assert_eq!(status.holders[0].value, lease.owner.as_str());
        let listed = other.backend.list(&text, None).await.unwrap().entries;
        assert!(
            listed.iter().any(|entry| entry.name == text),
            "{text:?} is not listed"
        );
        assert_eq!(peer.release(&text, &lease.owner).await, Released::Released);
    }
}

/// No two of them are the same lock.
pub async fn different_names_are_different_locks<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    let mut leases = Vec::new();
    for text in odd_names() {
        leases.push(peer.take(&text).await);
    }
    let mut expected = odd_names();
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = peer.backend.list("", after.as_deref()).await.unwrap();
        listed.extend(page.entries.into_iter().map(|entry| entry.name));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    expected.sort();
    listed.sort();
    assert_eq!(listed, expected);
    for lease in leases {
        assert_eq!(
            peer.release(lease.name.as_str(), &lease.owner).await,
            Released::Released
        );
    }
}
