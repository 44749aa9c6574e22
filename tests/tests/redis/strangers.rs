//! What others put where a lock should be.

use leasehold::backend::{
    Attempt, Backend, Grant, Holder, HolderKind, Mode, Released, Renewal, Renewed, Request,
    redis::{Keys, Prefix},
};
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

/// Someone's data at the key of a lock that many wait for is not sent to each of them each time.
#[tokio::test]
async fn b18_a_foreign_value_of_any_size_is_named_by_its_beginning() {
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    let blob = "b".repeat(1 << 20);
    server.cli(&["SET", "lock:x", &blob]);
    let Attempt::Queued(queued) = peer.ask(&peer.waiting("x")).await else {
        panic!("it was granted");
    };
    let shown = queued.holder.unwrap();
    assert_eq!(shown.kind, HolderKind::Foreign);
    assert!(shown.value.len() < 10_000 && blob.starts_with(&shown.value));
    assert!(!peer.redis.force(&name("x"), &shown.value).await.unwrap());
    assert!(peer.redis.force(&name("x"), &blob).await.unwrap());
}

#[tokio::test]
async fn b18_another_type_behind_one_lock_ends_no_other_lease() {
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    for mode in [Mode::Exclusive, Mode::Read] {
        let lease = |text: &str| {
            let mut request = peer.request(text);
            request.mode = mode;
            request
        };
        let (gone, kept) = (lease("gone"), lease("kept"));
        let requests = [gone.clone(), kept.clone()];
        let grants = peer.redis.acquire_all(&requests).await.unwrap().unwrap();
        peer.release(&gone).await.unwrap();
        let waiters = Keys::new(&Prefix::default(), &gone.name).waiters;
        server.cli(&["SET", &waiters, "no hash"]);
        let renewal = |(request, grant): (&Request, &Grant)| {
            let (name, owner) = (request.name.clone(), request.owner.clone());
            Renewal::new(name, owner, mode, grant.token, request.ttl)
        };
        let renewals: Vec<Renewal> = requests.iter().zip(&grants).map(renewal).collect();
        let answers = peer.redis.renew(&renewals).await;
        assert!(matches!(answers[0], Ok(Renewed::Missing)), "{answers:?}");
        assert!(matches!(answers[1], Ok(Renewed::Renewed(_))), "{answers:?}");
        server.cli(&["DEL", &waiters]);
        peer.release(&kept).await.unwrap();
    }
}
