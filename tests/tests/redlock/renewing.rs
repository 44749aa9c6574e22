//! Renewal by a majority, and what is done about the rest.

use std::time::{Duration, Instant};

use leasehold_testkit::servers::Data;

use crate::{Nodes, until};

const TTL: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b21_a_majority_that_renews_is_enough_and_nothing_is_thrown_away() {
    let mut nodes = Nodes::start(3);
    let client = nodes.client().await;
    let guard = client.lock("kept").with_ttl(TTL).acquire().await.unwrap();
    let owner = guard.owner().as_str().to_owned();
    nodes.server(2).kill();
    let begun = Instant::now();
    while begun.elapsed() < TTL * 5 / 4 {
        guard.check().unwrap();
        assert!(nodes.values("kept")[0].starts_with(&owner));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Empty, it must not be given the lease before it may vote.
    nodes.server(2).start_again(Data::Lost);
    tokio::time::sleep(TTL / 2).await;
    guard.check().unwrap();
    assert_eq!(nodes.values("kept")[2], "(nil)");
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b21_a_node_that_lost_the_lease_is_given_it_again() {
    let nodes = Nodes::start(3);
    let client = nodes.client().await;
    let guard = client.lock("again").with_ttl(TTL).acquire().await.unwrap();
    let owner = guard.owner().as_str().to_owned();
    nodes.0.0[1].cli(&["DEL", "lock:again"]);
    until("all have it", async || {
        nodes
            .values("again")
            .iter()
            .all(|value| value.starts_with(&owner))
    })
    .await;
    guard.check().unwrap();
    guard.release().await.unwrap();
    until("none has it", async || {
        nodes.values("again").iter().all(|value| value == "(nil)")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b21_a_minority_is_a_loss_and_is_not_filled_up() {
    let nodes = Nodes::start(3);
    let client = nodes.client().await;
    let guard = client.lock("gone").with_ttl(TTL).acquire().await.unwrap();
    // Again and again: a renewal between the two would rightly fill up the first.
    until("the guard knows", async || {
        nodes.0.0[1].cli(&["DEL", "lock:gone"]);
        nodes.0.0[2].cli(&["DEL", "lock:gone"]);
        guard.check().is_err()
    })
    .await;
    guard.lost().await;
    assert_eq!(nodes.values("gone")[1], "(nil)");
    until("the rest is cleaned up", async || {
        nodes.values("gone").iter().all(|value| value == "(nil)")
    })
    .await;
}
