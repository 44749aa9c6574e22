//! Minimum holds, downgrades, elections and releases, while nodes are away.

use std::time::{Duration, Instant};

use leasehold::{Client, ErrorKind};
use leasehold_testkit::{proxy::Proxy, servers::Data};

use crate::{Nodes, until};

const TTL: Duration = Duration::from_secs(60);

async fn nothing_left(nodes: &Nodes, name: &str) {
    until("nothing is left", async || {
        nodes.values(name).iter().all(|value| value == "(nil)")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b21_a_minimum_hold_is_kept_by_a_majority_and_by_the_node_that_was_away() {
    const HOLD: Duration = Duration::from_secs(6);
    let mut nodes = Nodes::start(3);
    let (one, two) = (nodes.client().await, nodes.client().await);
    let begun = Instant::now();
    let lock = one.lock("cron").with_ttl(TTL).with_min_hold(HOLD);
    let guard = lock.acquire().await.unwrap();
    let token = guard.fencing_token();
    until("all nodes have given it", async || {
        nodes.values("cron").iter().all(|value| value != "(nil)")
    })
    .await;
    nodes.server(2).pause();
    guard.release().await.unwrap();
    let try_it = async || two.lock("cron").try_acquire().await.unwrap();
    let early = try_it().await.is_none();
    nodes.server(2).resume();
    assert!(early || begun.elapsed() >= HOLD, "free before its time");
    until("the last node keeps it too, or it is over", async || {
        let kept = |value: &String| value.starts_with("~kept;");
        nodes.values("cron").iter().all(kept) || begun.elapsed() >= HOLD
    })
    .await;
    let next = two.lock("cron").acquire().await.unwrap();
    assert!(begun.elapsed() >= HOLD, "free after {:?}", begun.elapsed());
    assert!(next.fencing_token() > token);
    next.release().await.unwrap();
    nothing_left(&nodes, "cron").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b20_a_node_that_forgot_a_minimum_hold_does_not_end_it() {
    let mut nodes = Nodes::start(3);
    let holder = Client::new(nodes.store(TTL).await).unwrap();
    let rival = Client::new(nodes.store(TTL).await).unwrap();
    let lock = holder.lock("forgotten").with_min_hold(TTL);
    lock.acquire().await.unwrap().release().await.unwrap();
    nodes.0.0[2].cli(&["DEL", "lock:forgotten"]);
    nodes.server(0).restart(Data::Lost);
    for _ in 0..10 {
        let asked = rival.lock("forgotten").try_acquire().await;
        assert!(!matches!(asked, Ok(Some(_))), "given by a node that forgot");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let long = holder.lock("too long").with_min_hold(TTL * 2);
    let error = long.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_becomes_a_reader_on_a_majority_and_then_on_the_rest() {
    let mut nodes = Nodes::start(3);
    let (one, two) = (nodes.client().await, nodes.client().await);
    let ttl = Duration::from_secs(6);
    let writer = one.lock("book").with_ttl(ttl).acquire().await.unwrap();
    until("all nodes have given it", async || {
        nodes.values("book").iter().all(|value| value != "(nil)")
    })
    .await;
    let token = writer.fencing_token();
    let waits = tokio::spawn({
        let lock = two.rw_lock("book");
        async move { lock.read().await.unwrap() }
    });
    nodes.server(2).pause();
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(reader.fencing_token(), token);
    let other = waits.await.unwrap();
    assert!(other.fencing_token() >= token);
    assert!(two.lock("book").try_acquire().await.unwrap().is_none());
    nodes.server(2).resume();
    until("the last node lets readers in", async || {
        nodes.values("book")[2].starts_with("~shared:0;")
    })
    .await;
    reader.check().unwrap();
    other.release().await.unwrap();
    reader.release().await.unwrap();
    let next = two.lock("book").acquire().await.unwrap();
    assert!(next.fencing_token() > token);
    next.release().await.unwrap();
    nothing_left(&nodes, "book").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b24_the_leader_s_last_words_are_seen_whichever_node_is_away() {
    let mut nodes = Nodes::start(3);
    let (one, two) = (nodes.client().await, nodes.client().await);
    let election = one.election("leader").with_ttl(TTL);
    let leads = election.campaign("first").await.unwrap();
    let seen = async || {
        let leader = two.election("leader").leader().await.unwrap();
        leader.expect("one leads").value
    };
    assert_eq!(seen().await, "first");
    nodes.server(2).pause();
    leads.proclaim("second").await.unwrap();
    nodes.server(2).resume();
    nodes.server(0).pause();
    assert_eq!(seen().await, "second");
    nodes.server(0).resume();
    nodes.server(1).restart(Data::Lost);
    until("all answer again", async || seen().await == "second").await;
    let term = leads.term();
    leads.resign().await.unwrap();
    let next = two.election("leader").campaign("third").await.unwrap();
    assert!(next.term() > term);
    assert_eq!(seen().await, "third");
    next.resign().await.unwrap();
    nothing_left(&nodes, "leader").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b25_what_a_node_missed_of_a_release_is_made_up_for() {
    let nodes = Nodes::start(3);
    let proxy = Proxy::start(nodes.0.0[2].address()).await;
    let [first, second] = [0, 1].map(|at: usize| nodes.0.0[at].address());
    let url = format!(
        "redlock://{first},{second},{}?assume_fresh=1",
        proxy.address()
    );
    let client = Client::connect(&url).await.unwrap();
    let pool = client.semaphore("missed", 2).with_ttl(TTL);
    let guards = [
        client
            .lock("missed lock")
            .with_ttl(TTL)
            .acquire()
            .await
            .unwrap(),
        pool.acquire_many(2).await.unwrap(),
    ];
    until("all nodes have given them", async || {
        let values = [nodes.values("missed"), nodes.values("missed lock")].concat();
        values.iter().all(|value| value != "(nil)")
    })
    .await;
    proxy.refuse();
    for guard in guards {
        guard.release().await.unwrap();
    }
    assert_ne!(nodes.values("missed lock")[2], "(nil)");
    proxy.recover();
    nothing_left(&nodes, "missed").await;
    nothing_left(&nodes, "missed lock").await;
}
