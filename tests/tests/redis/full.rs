//! A server that refuses writes must not cost a lock.

use leasehold::{
    ErrorKind,
    backend::{
        Attempt, Backend, Event, Grant, Mode, Released, Renewal, Renewed, Request, Sent, Wait,
    },
};
use leasehold_testkit::servers::RedisServer;

use crate::peer::{LONG, Peer};

/// Leaves the server no byte to give.
fn fill(server: &RedisServer) {
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(server.try_cli(&["SET", "k", "v"]).is_err());
}

#[tokio::test]
async fn a_full_server_renews_releases_and_hands_over() {
    let server = RedisServer::start();
    let (holder, mut waiter) = (
        Peer::join(&server.url()).await,
        Peer::join(&server.url()).await,
    );
    let lease = holder.take("a").await;
    let (mut waiting, queued) = waiter.queue("a").await;
    fill(&server);
    assert!(matches!(
        holder.renew(&lease).await,
        Ok(Renewed::Renewed(_))
    ));
    waiting.wait = Some(Wait::new(1, Some(queued.ticket), LONG));
    assert!(
        matches!(waiter.ask(&waiting).await, Attempt::Queued(_)),
        "keeps its place"
    );
    assert_eq!(holder.release(&lease.0).await.unwrap(), Released::Released);
    let event = waiter
        .event_like(|event| matches!(event, Event::Granted { .. }))
        .await;
    let Event::Granted { token, seq, .. } = event else {
        unreachable!()
    };
    assert_eq!(seq, 1);
    assert!(token > lease.1.token);
    assert_eq!(waiter.release(&waiting).await.unwrap(), Released::Released);
}

#[tokio::test]
async fn a_full_server_renews_and_releases_shared_leases() {
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    let mut leases = Vec::new();
    for (text, mode) in [("r", Mode::Read), ("p", Mode::permits(3, 2).unwrap())] {
        let mut request = peer.request(text);
        request.mode = mode;
        let Attempt::Granted(grant) = peer.ask(&request).await else {
            panic!("not granted")
        };
        leases.push((request, grant));
    }
    fill(&server);
    for lease in &leases {
        assert!(matches!(peer.renew(lease).await, Ok(Renewed::Renewed(_))));
        assert_eq!(peer.release(&lease.0).await.unwrap(), Released::Released);
    }
}

#[tokio::test]
async fn a_full_server_refuses_new_locks_with_the_reason_and_queues_nobody() {
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    peer.take("a").await;
    fill(&server);
    for request in [peer.request("b"), peer.waiting("b")] {
        let failure = peer.try_ask(&request).await.unwrap_err();
        assert_eq!(
            (failure.kind(), failure.sent()),
            (ErrorKind::Unavailable, Sent::No)
        );
        assert!(failure.message().contains("memory"), "{failure}");
    }
    // The caller asks again after a while instead.
    assert!(matches!(
        peer.ask(&peer.waiting("a")).await,
        Attempt::Held(_)
    ));
    assert_eq!(server.cli(&["KEYS", "*queue*"]), "");
}

#[tokio::test]
async fn a_server_that_takes_no_writes_never_says_that_a_lease_is_lost() {
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    let lease = peer.take("a").await;
    let gone = peer.take("gone").await;
    peer.release(&gone.0).await.unwrap();
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "3"]);
    for answer in [peer.renew(&lease).await, peer.renew(&gone).await] {
        let failure = answer.unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Unavailable);
        assert!(failure.message().contains("replicas"), "{failure}");
    }
    assert_eq!(
        peer.release(&lease.0).await.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(
        peer.release(&gone.0).await.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert!(matches!(peer.renew(&lease).await, Ok(Renewed::Renewed(_))));
}

#[tokio::test]
async fn a_full_server_lets_a_holder_do_all_that_ends_or_keeps_its_lease() {
    let server = RedisServer::start();
    let (peer, mut reader) = (
        Peer::join(&server.url()).await,
        Peer::join(&server.url()).await,
    );
    let [down, kept, seen] = [
        peer.take("d").await,
        peer.take("k").await,
        peer.take("f").await,
    ];
    let mut waiting = reader.waiting("d");
    waiting.mode = Mode::Read;
    assert!(matches!(reader.ask(&waiting).await, Attempt::Queued(_)));
    fill(&server);
    let renewal = |(request, grant): &(Request, Grant)| {
        let (name, owner) = (request.name.clone(), request.owner.clone());
        Renewal::new(name, owner, request.mode, grant.token, request.ttl)
    };
    let renewed = |answer| matches!(answer, Ok(Renewed::Renewed(_)));
    assert!(renewed(
        peer.redis.annotate(&renewal(&down), Some("note")).await
    ));
    assert!(renewed(peer.redis.downgrade(&renewal(&down)).await));
    reader
        .event_like(|event| matches!(event, Event::Granted { .. }))
        .await;
    assert_eq!(peer.release(&down.0).await.unwrap(), Released::Released);
    let (name, owner) = (&kept.0.name, &kept.0.owner);
    let release = peer.redis.release(name, owner, Some(LONG)).await;
    assert_eq!(release.unwrap(), Released::Kept);
    let force = peer.redis.force(&seen.0.name, seen.0.owner.as_str()).await;
    assert!(force.unwrap());
    let failure = peer.redis.acquire_all(&[peer.request("m")]).await;
    assert_eq!(failure.unwrap_err().sent(), Sent::No);
}

#[tokio::test]
async fn a_full_server_refuses_several_locks_with_the_reason_and_takes_none() {
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    fill(&server);
    let both = [peer.request("b"), peer.request("c")];
    let failure = peer.redis.acquire_all(&both).await.unwrap_err();
    assert!(failure.message().contains("memory"), "{failure}");
    assert_eq!(server.cli(&["KEYS", "*"]), "");
}
