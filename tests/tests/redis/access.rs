//! Users that may not do everything.

use leasehold::{
    ErrorKind,
    backend::{Attempt, Backend, Event, Mode, Released, Renewed, Wait},
};
use leasehold_testkit::servers::RedisServer;

use crate::peer::{LONG, Peer, name, until};

/// What the README tells to allow.
fn documented() -> Vec<&'static str> {
    let readme = include_str!("../../../crates/leasehold/src/backend/redis/README.md");
    let rules = readme.split_once("ACL SETUSER locks on ").unwrap().1;
    let rules = rules.split_once("```").unwrap().0;
    rules.split_whitespace().collect()
}

fn user(server: &RedisServer, rules: &[&str]) -> String {
    let mut words = vec!["ACL", "SETUSER", "locks", "reset", "on", ">secret"];
    words.extend(rules.iter().filter(|rule| !rule.starts_with('>')));
    server.cli(&words);
    format!("redis://locks:secret@{}", server.address())
}

#[tokio::test]
async fn b17_the_documented_rights_are_enough() {
    let server = RedisServer::start();
    for protocol in [2, 3] {
        let url = format!("{}?resp={protocol}", user(&server, &documented()));
        let (holder, mut waiter) = (Peer::join(&url).await, Peer::join(&url).await);
        let lease = holder.take("a").await;
        let (waiting, _) = waiter.queue("a").await;
        assert!(matches!(
            holder.renew(&lease).await,
            Ok(Renewed::Renewed(_))
        ));
        assert_eq!(holder.release(&lease.0).await.unwrap(), Released::Released);
        waiter
            .event_like(|event| matches!(event, Event::Granted { .. }))
            .await;
        let status = holder.redis.inspect(&name("a")).await.unwrap();
        assert_eq!(status.holders[0].value, waiting.owner.as_str());
        assert_eq!(holder.redis.list("", None).await.unwrap().entries.len(), 1);
        assert!(
            holder
                .redis
                .force(&name("a"), waiting.owner.as_str())
                .await
                .unwrap()
        );
        holder.redis.ping().await.unwrap();
    }
    assert_eq!(server.cli(&["ACL", "LOG"]), "", "nothing was denied");
}

#[tokio::test]
async fn b17_a_missing_right_is_named_before_anything_is_taken() {
    let server = RedisServer::start();
    if server.cli(&["INFO", "server"]).contains("redis_version:6.") {
        return; // it cannot be asked what a user may do
    }
    let before = server.cli(&["DBSIZE"]);
    for missing in ["-evalsha", "-del", "-set", "-hdel"] {
        let mut rules = documented();
        rules.push(missing);
        let failure = Peer::try_join(&user(&server, &rules)).await.err().unwrap();
        assert_eq!(failure.kind(), ErrorKind::Denied, "{failure}");
        assert!(failure.message().contains(&missing[1..]), "{failure}");
    }
    let mut rules = documented();
    rules.extend(["resetkeys", "~other:*"]);
    let failure = Peer::try_join(&user(&server, &rules)).await.err().unwrap();
    assert_eq!(failure.kind(), ErrorKind::Denied, "{failure}");
    assert_eq!(server.cli(&["DBSIZE"]), before);
}

#[tokio::test]
async fn b17_without_channels_waiters_are_served_by_asking_again() {
    let server = RedisServer::start();
    let mut rules = documented();
    rules.push("resetchannels");
    let url = user(&server, &rules);
    let (holder, waiter) = (Peer::join(&url).await, Peer::join(&url).await);
    let lease = holder.take("a").await;
    let (mut waiting, queued) = waiter.queue("a").await;
    assert!(queued.change_in.as_millis() <= 100, "{queued:?}");
    assert_eq!(holder.release(&lease.0).await.unwrap(), Released::Released);
    assert_eq!(server.cli(&["EXISTS", "lock:a"]), "0");
    // The name is free and reserved.
    let Attempt::Held(held) = holder.ask(&holder.request("a")).await else {
        panic!("it was taken although another waits");
    };
    assert!(held.change_in.as_millis() <= 100, "{held:?}");
    waiting.wait = Some(Wait::new(1, Some(queued.ticket), LONG));
    assert!(matches!(waiter.ask(&waiting).await, Attempt::Granted(_)));
}

/// Who may not publish releases all the same, and says that the waiter could not be told.
#[tokio::test]
async fn b17_a_release_without_publish_is_a_release() {
    let server = RedisServer::start();
    let waiter = Peer::join(&server.url()).await;
    let mut rules = documented();
    rules.push("-publish");
    let holder = Peer::join(&user(&server, &rules)).await;
    let lease = holder.take("a").await;
    let (mut waiting, queued) = waiter.queue("a").await;
    assert_eq!(holder.release(&lease.0).await.unwrap(), Released::Released);
    assert_eq!(server.cli(&["EXISTS", "lock:a"]), "0");
    waiting.wait = Some(Wait::new(1, Some(queued.ticket), LONG));
    assert!(matches!(waiter.ask(&waiting).await, Attempt::Granted(_)));
}

#[tokio::test]
async fn b17_rights_lost_on_the_way_are_denied() {
    let server = RedisServer::start();
    let url = user(&server, &documented());
    let peer = Peer::join(&url).await;
    server.cli(&["ACL", "SETUSER", "locks", "-evalsha", "-eval"]);
    let denied = |answer: &Result<Attempt, leasehold::backend::Failure>| {
        answer
            .as_ref()
            .is_err_and(|failure| failure.kind() == ErrorKind::Denied)
    };
    let _ = until(
        async || peer.redis.acquire(&peer.request("a")).await,
        denied,
    )
    .await;
}

/// A lock that may not be read is not one that is gone.
#[tokio::test]
async fn b17_a_right_lost_on_the_way_ends_no_lease() {
    let server = RedisServer::start();
    let url = user(&server, &documented());
    let (peer, other) = (Peer::join(&url).await, Peer::join(&server.url()).await);
    let lease = peer.take("a").await;
    let mut request = peer.request("r");
    request.mode = Mode::Read;
    let Attempt::Granted(grant) = peer.ask(&request).await else {
        panic!("not granted")
    };
    let shared = (request, grant);
    other.take("b").await;
    server.cli(&["ACL", "SETUSER", "locks", "-get"]);
    let denied = [
        peer.renew(&lease).await.err(),
        peer.renew(&shared).await.err(),
        peer.release(&lease.0).await.err(),
        peer.try_ask(&peer.request("b")).await.err(),
    ];
    for failure in denied {
        assert_eq!(failure.map(|it| it.kind()), Some(ErrorKind::Denied));
    }
    server.cli(&["ACL", "SETUSER", "locks", "+get"]);
    for lease in [&lease, &shared] {
        assert!(matches!(peer.renew(lease).await, Ok(Renewed::Renewed(_))));
    }
}
