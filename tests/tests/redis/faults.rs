//! Connections that break, servers that restart, and what they forget.

use std::{net::SocketAddr, time::Duration};

use leasehold::{
    ErrorKind,
    backend::{
        Attempt, Backend, Event, Released, Renewed, Sent, Wait,
        redis::{Config, scripts},
    },
};
use leasehold_testkit::{
    proxy::Proxy,
    servers::{Data, RedisServer},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::peer::{LONG, Peer, name, until};

/// How long a call may take: soon over, and enough for a server that is there.
const CALL: Duration = Duration::from_secs(2);

/// A client behind a proxy, that gives up unanswered calls quickly.
async fn behind(proxy: &Proxy) -> Peer {
    let config = Config::from_url(&format!("redis://{}", proxy.address())).unwrap();
    Peer::connect(config.with_call_timeout(CALL)).await.unwrap()
}

fn is_grant(event: &Event) -> bool {
    matches!(event, Event::Granted { .. })
}

#[tokio::test]
async fn b14_a_forgotten_script_is_sent_again() {
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    let flush = || assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
    flush();
    let lease = peer.take("a").await;
    flush();
    assert!(matches!(peer.renew(&lease).await, Ok(Renewed::Renewed(_))));
    flush();
    peer.queue("a").await;
    flush();
    assert_eq!(
        peer.redis.inspect(&name("a")).await.unwrap().waiters.len(),
        1
    );
    flush();
    assert_eq!(peer.redis.list("", None).await.unwrap().entries.len(), 1);
    flush();
    assert!(!peer.redis.force(&name("a"), "nobody").await.unwrap());
    flush();
    assert_eq!(peer.release(&lease.0).await.unwrap(), Released::Released);
    let loaded = server.cli(&["SCRIPT", "EXISTS", scripts()[1].sha()]);
    assert_eq!(
        loaded, "1",
        "the text that was sent is known by its hash now"
    );
}

#[tokio::test]
async fn b20_a_restarted_server_is_found_again_and_holders_are_told_to_check() {
    let mut server = RedisServer::start_with(&["--appendfsync", "always"]);
    let mut peer = Peer::join(&server.url()).await;
    let lease = peer.take("a").await;
    server.restart(Data::Kept);
    peer.event_like(|event| *event == Event::Reconnected).await;
    assert!(matches!(peer.renew(&lease).await, Ok(Renewed::Renewed(_))));
    server.restart(Data::Lost);
    peer.event_like(|event| *event == Event::Reconnected).await;
    // B34: what the server forgot is missing, and is not put back.
    assert_eq!(peer.renew(&lease).await.unwrap(), Renewed::Missing);
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    let next = peer.take("a").await;
    assert!(next.1.token > lease.1.token, "the clock went on");
}

#[tokio::test]
async fn b11_pushes_arrive_again_before_anybody_is_told_to_check() {
    for protocol in [2, 3] {
        let server = RedisServer::start();
        let holder = Peer::join(&server.url()).await;
        let mut waiter = Peer::join(&format!("{}?resp={protocol}", server.url())).await;
        let lease = holder.take("a").await;
        waiter.queue("a").await;
        server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        waiter
            .event_like(|event| *event == Event::Reconnected)
            .await;
        holder.release(&lease.0).await.unwrap();
        waiter.event_like(is_grant).await;
    }
}

#[tokio::test]
async fn b05_an_acquire_without_answer_is_undone_by_a_release() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address()).await;
    let peer = behind(&proxy).await;
    proxy.swallow_replies();
    let request = peer.request("a");
    let failure = peer.try_ask(&request).await.unwrap_err();
    assert_eq!(
        (failure.kind(), failure.sent()),
        (ErrorKind::Unavailable, Sent::Maybe)
    );
    until(
        async || server.cli(&["EXISTS", "lock:a"]),
        |there| there == "1",
    )
    .await;
    proxy.recover();
    let released = until(async || peer.release(&request).await, Result::is_ok).await;
    assert_eq!(released.unwrap(), Released::Released);
    peer.take("a").await;
}

/// Passes connections on to a server. While `holding`, what a client sends is kept back, also
/// when the client is gone, and reaches the server when `holding` ends.
async fn straggling(server: SocketAddr, holding: watch::Receiver<bool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut count = 0;
        while let Ok((client, _)) = listener.accept().await {
            let upstream = TcpStream::connect(server).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = upstream.into_split();
            let mut holding = holding.clone();
            let first = count == 0;
            count += 1;
            tokio::spawn(async move {
                let mut buffer = [0; 64 * 1024];
                while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
                    if first {
                        holding.wait_for(|held| !held).await.unwrap();
                    }
                    if to_server.write_all(&buffer[..count]).await.is_err() {
                        break;
                    }
                }
            });
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
        }
    });
    address
}

/// What was sent on a lost connection must not be executed after what was sent on the next one.
#[tokio::test]
async fn b05_a_late_acquire_does_not_come_after_its_release() {
    let server = RedisServer::start();
    let (hold, holding) = watch::channel(false);
    let address = straggling(server.address(), holding).await;
    let config = Config::from_url(&format!("redis://{address}")).unwrap();
    let peer = Peer::connect(config.with_call_timeout(CALL)).await.unwrap();
    let witness = Peer::join(&server.url()).await;
    hold.send_replace(true);
    let request = peer.request("a");
    peer.try_ask(&request).await.unwrap_err();
    let released = until(async || peer.release(&request).await, Result::is_ok).await;
    assert_eq!(released.unwrap(), Released::NotOurs);
    hold.send_replace(false);
    // Were it executed, it would be within this time.
    tokio::time::sleep(Duration::from_millis(300)).await;
    witness.take("a").await;
}

#[tokio::test]
async fn b16_an_absent_server_is_not_stormed() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address()).await;
    let mut peer = behind(&proxy).await;
    let count = || -> u32 {
        let info = server.cli(&["INFO", "stats"]);
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("total_connections_received:"));
        line.unwrap().trim().parse().unwrap()
    };
    let before = count();
    proxy.refuse();
    let begun = std::time::Instant::now();
    let mut asked = 0;
    while begun.elapsed() < Duration::from_secs(2) {
        let failure = peer.try_ask(&peer.request("a")).await.unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Unavailable, "{failure}");
        asked += 1;
    }
    // Each answer waits for another attempt to connect, and those get rarer.
    assert!(asked < 40, "{asked} calls failed in 2 s");
    proxy.recover();
    peer.event_like(|event| *event == Event::Reconnected).await;
    peer.take("a").await;
    // This test's own questions are connections too.
    assert!(count() - before < 60);
}

/// As a server does that greets and then refuses, or a proxy whose server is gone.
#[tokio::test]
async fn b16_a_server_that_drops_each_connection_is_not_stormed() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address()).await;
    let mut peer = behind(&proxy).await;
    let mut connected = 0;
    let dropping = async {
        loop {
            proxy.cut();
            peer.event_like(|event| *event == Event::Reconnected).await;
            connected += 1;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), dropping).await;
    assert!(connected < 25, "connected {connected} times in 2 s");
    until(
        async || peer.try_ask(&peer.request("a")).await,
        Result::is_ok,
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn a_hung_server_costs_one_limit_and_nothing_is_lost() {
    let server = RedisServer::start();
    let config = Config::from_url(&server.url()).unwrap();
    let mut peer = Peer::connect(config.with_call_timeout(CALL)).await.unwrap();
    let lease = peer.take("a").await;
    server.pause();
    let failure = peer.renew(&lease).await.unwrap_err();
    assert_eq!(
        (failure.kind(), failure.sent()),
        (ErrorKind::Unavailable, Sent::Maybe)
    );
    server.resume();
    peer.event_like(|event| *event == Event::Reconnected).await;
    assert!(matches!(peer.renew(&lease).await, Ok(Renewed::Renewed(_))));
}

/// C4: a demoted server must not tell holders that their leases are gone, nor waiters to go.
#[tokio::test]
async fn b20_a_demoted_server_proves_nothing() {
    let primary = RedisServer::start();
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    let lease = peer.take("a").await;
    let gone = peer.take("gone").await;
    peer.release(&gone.0).await.unwrap();
    // A replica that cannot reach its primary keeps its data, and answers reads.
    let port = primary.address().port().to_string();
    drop(primary);
    server.cli(&["REPLICAOF", "127.0.0.1", &port]);
    for answer in [peer.renew(&lease).await, peer.renew(&gone).await] {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert_eq!(
        peer.release(&gone.0).await.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(
        peer.release(&lease.0).await.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(
        peer.try_ask(&peer.request("a")).await.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    let renewed = until(async || peer.renew(&lease).await, Result::is_ok).await;
    assert!(matches!(renewed, Ok(Renewed::Renewed(_))));
}

/// A waiter whose client was away when its turn came takes up its old place.
#[tokio::test]
async fn b13_a_waiter_that_missed_its_turn_keeps_its_place() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address()).await;
    let holder = Peer::join(&server.url()).await;
    let mut away = behind(&proxy).await;
    let mut second = Peer::join(&server.url()).await;
    let lease = holder.take("a").await;
    let (mut waiting, queued) = away.queue("a").await;
    let (third, _) = second.queue("a").await;
    proxy.refuse();
    until(
        async || {
            server.cli(&[
                "PUBSUB",
                "NUMSUB",
                &format!("lock:~push:{}", waiting.owner.client()),
            ])
        },
        |count| count.ends_with("\n0"),
    )
    .await;
    holder.release(&lease.0).await.unwrap();
    second.event_like(is_grant).await;
    proxy.recover();
    away.event_like(|event| *event == Event::Reconnected).await;
    let (_, last) = holder.queue("a").await;
    waiting.wait = Some(Wait::new(1, Some(queued.ticket), LONG));
    let Attempt::Queued(again) = away.ask(&waiting).await else {
        panic!("not queued")
    };
    assert_eq!((again.place, again.ticket), (0, queued.ticket));
    assert!(again.ticket < last.ticket);
    second.release(&third).await.unwrap();
    away.event_like(is_grant).await;
}

/// On a slow line, calls are dropped at any moment and others go on.
#[tokio::test]
async fn b25_a_dropped_call_leaves_its_answer_to_nobody() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address()).await;
    for protocol in [2, 3] {
        let url = format!("redis://{}?resp={protocol}", proxy.address());
        let peer = Peer::join(&url).await;
        proxy.delay(Duration::from_millis(5));
        for turn in 0..40_u64 {
            let (dropped, queued) = (peer.request("dropped"), peer.waiting("dropped"));
            let limit = Duration::from_micros(turn * 400);
            let both = async { tokio::join!(peer.try_ask(&dropped), peer.try_ask(&queued)) };
            let _ = tokio::time::timeout(limit, both).await;
            let lease = peer.take("a").await;
            let status = peer.redis.inspect(&name("a")).await.unwrap();
            assert_eq!(status.holders[0].token, Some(lease.1.token));
            for request in [&dropped, &queued] {
                peer.release(request).await.unwrap();
            }
            assert_eq!(peer.release(&lease.0).await.unwrap(), Released::Released);
        }
        proxy.recover();
    }
    assert_eq!(server.cli(&["EXISTS", "lock:dropped"]), "0");
    assert_eq!(server.cli(&["KEYS", "*queue*"]), "");
}

#[tokio::test]
async fn a_dropped_store_leaves_no_connection() {
    let server = RedisServer::start();
    for protocol in [2, 3] {
        let peer = Peer::join(&format!("{}?resp={protocol}", server.url())).await;
        let _lease = peer.take("a").await;
        let _waiting = peer.queue("a").await;
        drop(peer);
        let others = |clients: &String| clients.lines().count() == 1;
        until(async || server.cli(&["CLIENT", "LIST"]), others).await;
        server.cli(&["DEL", "lock:a"]);
    }
}
