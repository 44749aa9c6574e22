//! Several names at once, each node giving all of them or none.

use std::time::Duration;

use leasehold_testkit::{servers::Data, sim::cancel::drop_after};

use crate::{Nodes, until};

const NAMES: [&str; 3] = ["several/c", "several/a", "several/b"];

async fn nothing_left(nodes: &Nodes) {
    for name in NAMES {
        until("nothing is left", async || {
            nodes.values(name).iter().all(|value| value == "(nil)")
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b33_all_or_none_with_a_node_stopped_and_with_one_restarted() {
    let mut nodes = Nodes::start(3);
    let (one, two) = (nodes.client().await, nodes.client().await);
    let all = one.lock_all(NAMES);
    let mut last = [0; 3];
    for fault in 0..3 {
        match fault {
            1 => nodes.server(2).pause(),
            2 => {
                nodes.server(2).resume();
                nodes.server(2).restart(Data::Lost);
            }
            _ => {}
        }
        let single = two.lock("several/b").acquire().await.unwrap();
        assert!(all.try_acquire().await.unwrap().is_none());
        for name in ["several/a", "several/c"] {
            let lock = two.lock(name).acquire().await.unwrap();
            lock.release().await.unwrap();
        }
        single.release().await.unwrap();
        let guard = all.acquire().await.unwrap();
        for (held, last) in guard.guards().iter().zip(&mut last) {
            let token = held.fencing_token().get();
            assert!(token > *last, "{token} after {last}");
            *last = token;
            let name = held.name().as_str();
            assert!(two.lock(name).try_acquire().await.unwrap().is_none());
        }
        guard.check().unwrap();
        guard.release().await.unwrap();
    }
    nothing_left(&nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_minority_has_otherwise_is_not_in_the_way() {
    let nodes = Nodes::start(3);
    let client = nodes.client().await;
    let all = client.lock_all(NAMES);
    let foreign = |at: usize| {
        nodes.0.0[at].cli(&["SET", "lock:several/a", "foreign", "PX", "60000"]);
    };
    foreign(0);
    let guard = all
        .try_acquire()
        .await
        .unwrap()
        .expect("two of three are free");
    guard.release().await.unwrap();
    foreign(1);
    assert!(all.try_acquire().await.unwrap().is_none());
    for at in 0..2 {
        nodes.0.0[at].cli(&["DEL", "lock:several/a"]);
    }
    nothing_left(&nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b25_several_that_were_asked_for_and_not_waited_for_come_back() {
    let nodes = Nodes::start(3);
    let client = nodes.client().await;
    let all = client.lock_all(NAMES).with_ttl(Duration::from_secs(60));
    for polls in 1..20 {
        drop(drop_after(all.try_acquire(), polls).await);
    }
    all.acquire().await.unwrap().release().await.unwrap();
    nothing_left(&nodes).await;
}
