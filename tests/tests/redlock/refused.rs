//! Lists of nodes that cannot hold locks together.

use std::time::Duration;

use leasehold::{
    Client, ErrorKind,
    backend::{
        Failure,
        redlock::{Redlock, Settings},
    },
};
use leasehold_testkit::servers::RedisServer;

use crate::{Nodes, node, until};

async fn refusal(addresses: &[String]) -> Failure {
    let nodes = addresses.iter().map(|address| node(address)).collect();
    Redlock::connect(nodes, Settings::new()).await.unwrap_err()
}

fn addresses(nodes: &Nodes) -> Vec<String> {
    let address = |server: &RedisServer| server.address().to_string();
    nodes.0.0.iter().map(address).collect()
}

#[tokio::test]
async fn one_server_under_two_names_is_refused_with_the_pair() {
    let nodes = Nodes::start(2);
    let mut list = addresses(&nodes);
    let port = nodes.0.0[0].address().port();
    list.push(format!("localhost:{port}"));
    let failure = refusal(&list).await;
    assert_eq!(failure.kind(), ErrorKind::Invalid);
    let message = failure.message();
    for part in [&list[0], &list[2], "same server"] {
        assert!(message.contains(part), "{part} in {message}");
    }
}

#[tokio::test]
async fn replicas_and_those_that_have_them_are_refused_by_name() {
    let nodes = Nodes::start(4);
    let primary = nodes.0.0[0].address();
    nodes.0.0[3].cli(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    let list = addresses(&nodes);
    let failure = refusal(&list[1..]).await;
    assert_eq!(failure.kind(), ErrorKind::Invalid);
    assert!(failure.message().contains(&list[3]) && failure.message().contains("replica"));
    until("the primary knows its replica", async || {
        nodes.0.0[0]
            .cli(&["INFO", "replication"])
            .contains("connected_slaves:1")
    })
    .await;
    let failure = refusal(&list[..3]).await;
    assert_eq!(failure.kind(), ErrorKind::Invalid, "{failure}");
    assert!(failure.message().contains(&list[0]), "{failure}");
}

#[tokio::test]
async fn a_member_of_a_cluster_is_refused_by_name() {
    let nodes = Nodes::start(2);
    let member = RedisServer::start_with(&["--cluster-enabled", "yes"]);
    let mut list = addresses(&nodes);
    list.push(member.address().to_string());
    let failure = refusal(&list).await;
    assert_eq!(failure.kind(), ErrorKind::Invalid);
    assert!(failure.message().contains(&list[2]) && failure.message().contains("cluster"));
}

#[tokio::test]
async fn a_ttl_above_max_ttl_is_refused_with_both() {
    let nodes = Nodes::start(3);
    let client = Client::new(nodes.store(Duration::from_secs(5)).await).unwrap();
    let lock = client.lock("long").with_ttl(Duration::from_secs(6));
    let error = lock.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let message = error.to_string();
    assert!(
        message.contains("6s") && message.contains("5s"),
        "{message}"
    );
    assert!(client.inspect("long").await.unwrap().is_free());
}

#[tokio::test]
async fn no_majority_names_each_node_s_cause() {
    let mut nodes = Nodes::start(3);
    nodes.server(1).kill();
    nodes.server(2).kill();
    let list = addresses(&nodes);
    let settings = Settings::new().with_connect_timeout(Duration::from_secs(2));
    let connected = list.iter().map(|address| node(address)).collect();
    let failure = Redlock::connect(connected, settings).await.unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::Unavailable);
    for address in &list[1..] {
        assert!(
            failure.message().contains(address),
            "{address} in {failure}"
        );
    }
}

#[tokio::test]
async fn a_node_that_just_started_has_no_vote_and_says_for_how_long() {
    let nodes = Nodes::start(3);
    let connected = addresses(&nodes)
        .iter()
        .map(|address| node(address))
        .collect();
    let store = Redlock::connect(connected, Settings::new()).await.unwrap();
    let client = Client::new(store).unwrap();
    let error = client.lock("new").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("no vote for another"), "{error}");
}

/// A client of these nodes, which have just been started.
async fn join(addresses: &[String], max_ttl: Duration) -> Result<Redlock, Failure> {
    let settings = Settings::new()
        .with_assume_fresh(true)
        .with_max_ttl(max_ttl);
    let nodes = addresses.iter().map(|address| node(address)).collect();
    Redlock::connect(nodes, settings).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_other_nodes_or_another_max_ttl_is_refused_with_the_difference() {
    const MAX_TTL: Duration = Duration::from_secs(60);
    let nodes = Nodes::start(4);
    let list = addresses(&nodes);
    let first = Client::new(join(&list[..3], MAX_TTL).await.unwrap()).unwrap();
    let others = [&list[..2], &list[3..]].concat();
    // A server that has just been started may be one of the first's that was restarted.
    let mut refused = None;
    until("it is refused", async || {
        join(&list[..3], MAX_TTL).await.unwrap();
        refused = join(&others, MAX_TTL).await.err();
        refused.is_some()
    })
    .await;
    let failure = refused.unwrap();
    assert_eq!(failure.kind(), ErrorKind::Invalid, "{failure}");
    for part in [&list[2], &list[3]] {
        assert!(failure.message().contains(part), "{part} in {failure}");
    }
    let failure = join(&list, MAX_TTL).await.unwrap_err();
    assert!(failure.message().contains("another list"), "{failure}");
    let failure = join(&list[..3], MAX_TTL / 2).await.unwrap_err();
    for part in ["60s", "30s"] {
        assert!(failure.message().contains(part), "{part} in {failure}");
    }
    // Nothing of that is in the way of the first, nor of others like it.
    let second = Client::new(join(&list[..3], MAX_TTL).await.unwrap()).unwrap();
    for client in [&first, &second] {
        let guard = client.lock("listed").acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    assert!(first.list("").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_nodes_under_other_names_and_restarted_are_the_same() {
    const MAX_TTL: Duration = Duration::from_secs(60);
    let mut nodes = Nodes::start(3);
    let list = addresses(&nodes);
    let names = list.iter().map(|it| it.replace("127.0.0.1", "localhost"));
    let names: Vec<String> = names.collect();
    let first = Client::new(join(&list, MAX_TTL).await.unwrap()).unwrap();
    let second = Client::new(join(&names, MAX_TTL).await.unwrap()).unwrap();
    nodes
        .server(1)
        .restart(leasehold_testkit::servers::Data::Kept);
    let third = Client::new(join(&names, MAX_TTL).await.unwrap()).unwrap();
    nodes
        .server(1)
        .restart(leasehold_testkit::servers::Data::Lost);
    let fourth = Client::new(join(&list, MAX_TTL).await.unwrap()).unwrap();
    for client in [first, second, third, fourth] {
        let guard = client.lock("same").acquire().await.unwrap();
        guard.release().await.unwrap();
    }
}
