//! What a lock costs the members, by their own count.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use leasehold::Client;
use leasehold_testkit::servers::EtcdCluster;
use leasehold_tests::cluster::LONG;
use tokio::time::{Duration, Instant, sleep};

/// How often the member has answered a call of this name.
fn calls(member: SocketAddr, name: &str) -> u64 {
    let mut stream = TcpStream::connect(member).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\nHost: member\r\n\r\n")
        .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let what = format!("grpc_method=\"{name}\"");
    let counts = page
        .lines()
        .filter(|line| line.starts_with("grpc_server_handled_total{") && line.contains(&what))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a small count
    let count = counts.sum::<f64>() as u64;
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_costs_two_transactions_and_a_hand_off_one_read() {
    let cluster = EtcdCluster::start(1);
    let member = cluster.address(0);
    let reads_and_writes = || {
        let methods = ["Txn", "Range", "Put", "DeleteRange"];
        methods.map(|name| calls(member, name)).iter().sum::<u64>()
    };
    let clients = [
        Client::connect(&cluster.url()).await.unwrap(),
        Client::connect(&cluster.url()).await.unwrap(),
    ];
    // Long enough that nothing is renewed and no waiter gives a sign of life meanwhile.
    let ttl = Duration::from_secs(3600);
    let locks = clients.each_ref().map(|it| it.lock("a").with_ttl(ttl));
    for lock in &locks {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    // A call that a standing machine does not answer in time is sent once more, and a waiter looks
    // again every three seconds.
    let begun = Instant::now();
    let spare = || begun.elapsed().as_secs();
    let before = reads_and_writes();
    for _ in 0..20 {
        locks[0].acquire().await.unwrap().release().await.unwrap();
    }
    let cost = reads_and_writes() - before;
    assert!((40..=40 + spare()).contains(&cost), "{cost}");
    let leases = calls(member, "LeaseGrant");
    assert!(
        (2..=2 + spare()).contains(&leases),
        "one for all of a client: {leases}"
    );

    let guard = locks[0].acquire().await.unwrap();
    let waiting = locks[1].clone();
    let waiter = tokio::spawn(async move { waiting.acquire_timeout(LONG).await.unwrap() });
    while cluster.keys("lock/a/").len() < 2 {
        sleep(Duration::from_millis(5)).await;
    }
    let looked = reads_and_writes();
    guard.release().await.unwrap();
    let guard = waiter.await.unwrap();
    // The release, the read, and perhaps the waiter's first, which is counted when it is answered.
    let cost = reads_and_writes() - looked;
    assert!((2..=3 + spare()).contains(&cost), "{cost}");
    guard.release().await.unwrap();
}
