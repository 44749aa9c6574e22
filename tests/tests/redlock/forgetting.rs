//! Nodes that forget.

use std::time::{Duration, Instant};

use leasehold::{Client, ErrorKind, Renew};
use leasehold_testkit::servers::Data;

use crate::{Nodes, until};

const TTL: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b20_a_node_that_restarted_empty_has_no_vote_until_all_it_forgot_is_over() {
    let mut nodes = Nodes::start(3);
    let max_ttl = TTL;
    let holder = Client::new(nodes.store(max_ttl).await).unwrap();
    let rival = Client::new(nodes.store(max_ttl).await).unwrap();
    let lock = holder.lock("forgotten").with_ttl(TTL);
    // A renewal would be told by two nodes that it is lost.
    let guard = lock.with_renew(Renew::Never).acquire().await.unwrap();
    // As if the third node had never heard of it, and the first forgets: two are free now.
    nodes.0.0[2].cli(&["DEL", "lock:forgotten"]);
    nodes.server(0).restart(Data::Lost);
    let restarted = Instant::now();
    for _ in 0..20 {
        // Held, or no majority that may vote: never granted.
        let asked = rival.lock("forgotten").with_ttl(TTL).try_acquire().await;
        assert!(
            !matches!(asked, Ok(Some(_))),
            "granted by a node that forgot"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Two nodes say that it is not there, as they would if another had held it since.
    let released = guard.release().await.unwrap_err();
    assert_eq!(released.kind(), ErrorKind::Lost);
    // It votes again once nothing that it forgot can be in force.
    until("the node votes again", async || {
        let guard = rival
            .lock("forgotten")
            .with_ttl(TTL)
            .acquire()
            .await
            .unwrap();
        guard.release().await.unwrap();
        !nodes.0.0[0].cli(&["KEYS", "*~fence"]).is_empty()
    })
    .await;
    assert!(restarted.elapsed() >= max_ttl, "{:?}", restarted.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_survives_as_many_restarts_as_there_are_nodes() {
    let ttl = Duration::from_secs(3);
    let mut nodes = Nodes::start(3);
    let client = Client::new(nodes.store(ttl).await).unwrap();
    let guard = client
        .lock("rolling")
        .with_ttl(ttl)
        .acquire()
        .await
        .unwrap();
    let owner = guard.owner().as_str().to_owned();
    for at in 0..3 {
        nodes.server(at).restart(Data::Lost);
        until("it is given the lease again", async || {
            nodes.values("rolling")[at].starts_with(&owner)
        })
        .await;
        guard.check().unwrap();
    }
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fencing_tokens_rise_over_nodes_that_were_flushed() {
    let nodes = Nodes::start(3);
    let client = nodes.client().await;
    let mut last = 0;
    for round in 0..6 {
        let guard = client.lock("flushed").acquire().await.unwrap();
        let token = guard.fencing_token().get();
        assert!(token > last, "{token} after {last}");
        last = token;
        guard.release().await.unwrap();
        nodes.0.0[round % 3].cli(&["FLUSHALL"]);
        // Two losses in a row are survived if they are two seconds apart.
        tokio::time::sleep(Duration::from_millis(2_100)).await;
    }
}
