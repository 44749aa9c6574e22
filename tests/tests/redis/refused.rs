//! Servers that cannot or will not serve: the right kind of error, within the limit.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use leasehold::{ErrorKind, backend::redis::Config};
use leasehold_testkit::servers::RedisServer;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::peer::Peer;

/// What connecting says, which must fail within a bound.
async fn refusal(url: &str) -> (ErrorKind, String) {
    let limit = Duration::from_secs(3);
    let config = Config::from_url(url).unwrap().with_connect_timeout(limit);
    let begun = Instant::now();
    let failure = Peer::connect(config).await.err().expect("it is refused");
    assert!(begun.elapsed() < limit * 20, "{:?}", begun.elapsed());
    assert_eq!(failure.sent(), leasehold::backend::Sent::No);
    (failure.kind(), failure.to_string())
}

/// A server that answers whatever it is sent with `answer`, and stays silent if that is empty.
async fn impostor(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 64 * 1024];
                while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                    let lines = buffer.iter().filter(|&&byte| byte == b'*').count().max(1);
                    let _ = stream.write_all(answer.repeat(lines).as_bytes()).await;
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn b19_a_wrong_password_is_denied_and_not_shown() {
    let server = RedisServer::start();
    server.cli(&["CONFIG", "SET", "requirepass", "right"]);
    let address = server.address();
    for url in [
        format!("redis://{address}"),
        format!("redis://:wr0ng@{address}"),
        format!("redis://nobody:wr0ng@{address}"),
        format!("redis://:wr0ng@{address}?resp=2"),
    ] {
        let (kind, message) = refusal(&url).await;
        assert_eq!(kind, ErrorKind::Denied, "{message}");
        assert!(!message.contains("wr0ng"), "{message}");
    }
    Peer::join(&format!("redis://:right@{address}")).await;
    Peer::join(&format!("redis://:right@{address}?resp=2")).await;
}

#[tokio::test]
async fn a_refused_connection_is_unavailable() {
    let address = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let (kind, message) = refusal(&format!("redis://{address}")).await;
    assert_eq!(
        (kind, message.as_str()),
        (ErrorKind::Unavailable, "the connection is refused")
    );
    let (kind, _) = refusal("redis+unix:///nowhere/redis.sock").await;
    assert_eq!(kind, ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_silent_server_is_unavailable() {
    let address = impostor("").await;
    let (kind, message) = refusal(&format!("redis://{address}")).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(message.contains("3s"), "{message}");
}

#[tokio::test]
async fn what_is_not_a_redis_breaks_the_protocol() {
    for answer in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "SSH-2.0-x\r\n",
        "\0\0\0",
    ] {
        let address = impostor(answer).await;
        let (kind, message) = refusal(&format!("redis://{address}")).await;
        assert_eq!(kind, ErrorKind::Protocol, "{answer:?}: {message}");
    }
}

#[tokio::test]
async fn refusals_of_the_moment_are_unavailable() {
    for answer in [
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-BUSY Redis is busy running a script.\r\n",
        "-MASTERDOWN Link with MASTER is down\r\n",
        "-ERR max number of clients reached\r\n",
    ] {
        let address = impostor(answer).await;
        let (kind, message) = refusal(&format!("redis://{address}")).await;
        assert_eq!(kind, ErrorKind::Unavailable, "{answer:?}: {message}");
    }
}

#[tokio::test]
async fn a_replica_is_unavailable() {
    let primary = RedisServer::start();
    let port = primary.address().port().to_string();
    let replica = RedisServer::start();
    replica.cli(&["REPLICAOF", "127.0.0.1", &port]);
    let (kind, message) = refusal(&replica.url()).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(message.contains("replica"), "{message}");
}

#[tokio::test]
async fn a_member_of_a_cluster_is_unsupported() {
    let server = RedisServer::start_with(&["--cluster-enabled", "yes"]);
    let (kind, message) = refusal(&server.url()).await;
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(message.contains("cluster"), "{message}");
}

#[tokio::test]
async fn b19_any_password_any_database_and_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a b.sock");
    let password = "p@ss:w/rd#%&=+ é";
    let server = RedisServer::start_with(&["--unixsocket", socket.to_str().unwrap()]);
    let rule = format!(">{password}");
    server.cli(&[
        "ACL",
        "SETUSER",
        "us@er",
        "on",
        &rule,
        "allcommands",
        "allkeys",
        "allchannels",
    ]);
    let login = "us%40er:p%40ss%3Aw%2Frd%23%25%26%3D%2B%20%C3%A9";
    let tcp = Peer::join(&format!("redis://{login}@{}/3", server.address())).await;
    let path = socket.to_str().unwrap().replace(' ', "%20");
    let unix = Peer::join(&format!("redis+unix://{login}@{path}?db=3")).await;
    tcp.take("by tcp").await;
    unix.take("by socket").await;
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    let listed = server.cli(&["INFO", "keyspace"]);
    assert!(listed.contains("db3:"), "{listed}");
}
