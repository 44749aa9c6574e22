//! What others put where a lock should be.

use leasehold::backend::{Attempt, Backend, Holder, HolderKind, Released};
use leasehold_testkit::servers::RedisServer;

use crate::peer::{Peer, name};

/// Whom a try and inspection name as the holder of `text`.
async fn holder(peer: &Peer, text: &str) -> Holder {
    let Attempt::Held(held) = peer.ask(&peer.request(text)).await else {
        panic!("{text} was granted");
    };
    assert!(held.change_in.as_millis() <= 100, "{held:?}");
    let status = peer.redis.inspect(&name(text)).await.unwrap();
    assert_eq!(status.holders.len(), 1);
    let holder = status.holders[0].clone();
    assert_eq!(held.holder.unwrap().kind, holder.kind);
    holder
}

#[tokio::test]
async fn b18_a_key_of_another_type_is_named_and_never_touched() {
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    server.cli(&["HSET", "lock:x", "redisson", "1"]);
    assert_eq!(holder(&peer, "x").await.kind, HolderKind::WrongType);
    let waiting = peer.waiting("x");
    assert!(matches!(peer.ask(&waiting).await, Attempt::Queued(_)));
    assert_eq!(peer.release(&waiting).await.unwrap(), Released::NotOurs);
    for observed in ["hash", "", "1"] {
        assert!(!peer.redis.force(&name("x"), observed).await.unwrap());
    }
    assert_eq!(server.cli(&["HGETALL", "lock:x"]), "redisson\n1");
    assert_eq!(server.cli(&["PTTL", "lock:x"]), "-1");
    let listed = peer.redis.list("", None).await.unwrap().entries;
    assert_eq!(listed[0].holders[0].kind, HolderKind::WrongType);
}

#[tokio::test]
async fn b04_a_value_without_expiry_is_reported_and_left_alone() {
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    server.cli(&["SET", "lock:x", "uuid"]);
    let found = holder(&peer, "x").await;
    assert_eq!((found.kind, found.remaining), (HolderKind::Foreign, None));
    let listed = peer.redis.list("", None).await.unwrap().entries;
    assert_eq!(listed[0].holders[0].remaining, None);
    assert_eq!(server.cli(&["PTTL", "lock:x"]), "-1");
    assert!(!peer.redis.force(&name("x"), "other").await.unwrap());
    assert_eq!(server.cli(&["GET", "lock:x"]), "uuid");
    assert!(peer.redis.force(&name("x"), "uuid").await.unwrap());
    assert_eq!(server.cli(&["EXISTS", "lock:x"]), "0");
}

#[tokio::test]
async fn b18_the_lock_of_another_library_excludes_and_is_excluded() {
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    server.cli(&["SET", "lock:x", "uuid", "NX", "PX", "60000"]);
    let found = holder(&peer, "x").await;
    assert_eq!(
        (found.kind, found.value.as_str()),
        (HolderKind::Foreign, "uuid")
    );
    assert!(found.remaining.unwrap().as_secs() > 50);
    server.cli(&["DEL", "lock:x"]);
    peer.take("x").await;
    assert_eq!(
        server.cli(&["SET", "lock:x", "uuid", "NX", "PX", "60000"]),
        "(nil)"
    );
}

#[tokio::test]
async fn a_value_that_is_no_text_is_shown_so_that_it_can_be_named() {
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    let script = r"return redis.call('SET', KEYS[1], '\255\0a\\b', 'PX', 60000)";
    server.cli(&["EVAL", script, "1", "lock:x"]);
    let shown = holder(&peer, "x").await.value;
    assert_eq!(shown, r"\xff\x00a\x5cb");
    assert!(peer.redis.force(&name("x"), &shown).await.unwrap());
    peer.take("x").await;
}

/// Without a prefix the whole database is looked at, and most of it is no lock.
#[tokio::test]
async fn an_empty_prefix_lists_locks_only() {
    let server = RedisServer::start();
    let peer = Peer::join(&format!("{}?prefix=", server.url())).await;
    server.cli(&["SET", "config", "no lock"]);
    server.cli(&["HSET", "hash", "no", "lock"]);
    server.cli(&["SET", "theirs", "uuid", "PX", "60000"]);
    peer.take("mine").await;
    peer.queue("mine").await;
    let listed = peer.redis.list("", None).await.unwrap().entries;
    let names: Vec<&str> = listed.iter().map(|status| status.name.as_str()).collect();
    assert_eq!(names, ["mine", "theirs"]);
    assert_eq!(listed[0].waiters.len(), 1);
    assert_eq!(server.cli(&["GET", "config"]), "no lock");
}
