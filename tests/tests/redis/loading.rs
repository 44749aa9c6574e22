//! A server that restarts with so much data that reading it takes a while.

use std::time::Duration;

use leasehold::{
    Client, ErrorKind,
    backend::{Event, Renewed, redis::Config},
};
use leasehold_testkit::servers::RedisServer;

use crate::peer::{LONG, Peer, SOON, until};

/// How often it answers while it reads.
const INTERVAL: &str = "loading-process-events-interval-bytes";

/// Reads its data slowly, a key at a time, and answers in between.
const SLOW: [&str; 6] = [
    "--key-load-delay",
    "30000",
    "--loading-process-events-interval-bytes",
    "1024",
    "--rdbcompression",
    "no",
];

/// Enough to take a minute.
const FILL: &str =
    "for i = 1, 2000 do redis.call('SET', 'filler:' .. i, string.rep('x', 2000)) end";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b30_a_loading_server_says_so_and_has_lost_nothing() {
    let known = RedisServer::start().cli(&["CONFIG", "GET", INTERVAL]);
    if !known.contains(INTERVAL) {
        eprintln!("left out: this server answers only after every two megabytes that it reads");
        return;
    }
    let mut server = RedisServer::start_with(&SLOW);
    server.cli(&["EVAL", FILL, "0"]);
    let mut peer = Peer::join(&server.url()).await;
    let lease = peer.take("held").await;
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = client.lock("guarded").with_ttl(LONG);
    let guard = lock.acquire().await.unwrap();
    server.cli(&["BGREWRITEAOF"]);
    until(
        async || server.cli(&["INFO", "persistence"]),
        |info| info.contains("aof_rewrite_in_progress:0") && info.contains("rewrite_scheduled:0"),
    )
    .await;
    server.kill();
    server.start_loading();

    let config = Config::from_url(&server.url()).unwrap();
    let refused = Peer::connect(config).await.err().expect("it loads");
    let asked = peer.try_ask(&peer.request("other")).await.unwrap_err();
    let renewed = peer.renew(&lease).await.unwrap_err();
    for failure in [refused, asked, renewed] {
        assert_eq!(failure.kind(), ErrorKind::Unavailable, "{failure}");
        assert!(failure.to_string().contains("loading"), "{failure}");
    }
    let tried = client.lock("other").try_acquire().await.unwrap_err();
    assert_eq!(tried.kind(), ErrorKind::Unavailable, "{tried}");
    assert!(tried.to_string().contains("loading"), "{tried}");
    guard.check().unwrap();
    let waits = tokio::spawn({
        let lock = client.lock("waited for");
        async move { lock.acquire_timeout(LONG).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waits.is_finished(), "a wait rides it out");
    assert!(
        server.cli(&["INFO"]).contains("\nloading:1\r"),
        "loaded too soon"
    );

    server.cli(&["CONFIG", "SET", "key-load-delay", "0"]);
    peer.event_like(|event| *event == Event::Reconnected).await;
    assert!(matches!(peer.renew(&lease).await, Ok(Renewed::Renewed(_))));
    let waited = tokio::time::timeout(SOON, waits).await.expect("in time");
    waited.unwrap().unwrap().release().await.unwrap();
    assert!(client.lock("held").try_acquire().await.unwrap().is_none());
    guard.check().unwrap();
    guard.release().await.unwrap();
    peer.release(&lease.0).await.unwrap();
}
