//! Semaphores: each permit is had from a majority.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use leasehold::{Client, ErrorKind, Lease, Renew};
use leasehold_testkit::{servers::Data, sim::cancel::drop_after};

use crate::{Nodes, until};

const TTL: Duration = Duration::from_secs(60);

/// The slots of all that hold `name`, as each node has them.
fn slots(nodes: &Nodes, name: &str) -> Vec<Vec<String>> {
    let of = |server: &leasehold_testkit::servers::RedisServer| {
        let keys = server.cli(&["KEYS", &format!("lock:{{*}}~held:{name}")]);
        let members = server.cli(&["ZRANGE", keys.trim(), "0", "-1"]);
        let members = members.lines().filter_map(|line| line.split_once('#'));
        let mut slots: Vec<String> = members.map(|(_, slots)| slots.trim().to_owned()).collect();
        slots.sort();
        slots
    };
    nodes.0.0.iter().map(of).collect()
}

async fn nothing_left(nodes: &Nodes, name: &str) {
    until("nothing is left", async || {
        nodes.values(name).iter().all(|value| value == "(nil)")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b31_there_are_never_more_permits_than_the_limit() {
    const LIMIT: u32 = 3;
    let mut nodes = Nodes::start(3);
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for number in 0..6_u32 {
        let (client, inside) = (nodes.client().await, Arc::clone(&inside));
        tasks.push(tokio::spawn(async move {
            let pool = client.semaphore("pool", LIMIT).with_ttl(TTL);
            for round in 0..12 {
                let weight = 1 + (number + round) % 2;
                let guard = pool.acquire_many(weight).await.unwrap();
                let before = inside.fetch_add(weight, Ordering::SeqCst);
                assert!(before + weight <= LIMIT, "{before} and {weight} more");
                tokio::time::sleep(Duration::from_millis(2)).await;
                inside.fetch_sub(weight, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        }));
    }
    // A minority that comes and goes changes nothing.
    for at in 0..3 {
        nodes.server(at).pause();
        tokio::time::sleep(Duration::from_millis(150)).await;
        nodes.server(at).resume();
    }
    for task in tasks {
        task.await.unwrap();
    }
    nothing_left(&nodes, "pool").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_locks_and_those_of_others_exclude_each_other_under_one_name() {
    let nodes = Nodes::start(3);
    let (one, two) = (nodes.client().await, nodes.client().await);
    let permit = one.semaphore("one name", 2).acquire().await.unwrap();
    assert!(two.lock("one name").try_acquire().await.unwrap().is_none());
    let other = two.semaphore("one name", 3).try_acquire().await;
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Conflict);
    let waits = tokio::spawn({
        let pool = two.semaphore("one name", 3);
        async move { pool.acquire().await.unwrap() }
    });
    until("all nodes have given it", async || {
        nodes
            .values("one name")
            .iter()
            .all(|value| value != "(nil)")
    })
    .await;
    for server in &nodes.0.0 {
        let taken = server.cli(&["SET", "lock:one name", "foreign", "NX", "PX", "60000"]);
        assert_eq!(taken.trim(), "(nil)");
    }
    let status = one.inspect("one name").await.unwrap();
    assert_eq!(status.holders.len(), 1);
    assert_eq!(one.list("").await.unwrap().len(), 1);
    permit.release().await.unwrap();
    let other = waits.await.unwrap();
    let pool = one.semaphore("one name", 3);
    let rest = pool.acquire_many(2).await.unwrap();
    assert_eq!(one.inspect("one name").await.unwrap().holders.len(), 2);
    assert!(pool.try_acquire().await.unwrap().is_none());
    let token = rest.fencing_token();
    rest.release().await.unwrap();
    other.release().await.unwrap();
    let lock = two.lock("one name").acquire().await.unwrap();
    assert!(lock.fencing_token() > token);
    assert!(pool.try_acquire().await.unwrap().is_none());
    lock.release().await.unwrap();
    nothing_left(&nodes, "one name").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b20_a_node_that_restarted_empty_gives_no_permits() {
    let mut nodes = Nodes::start(3);
    let ttl = Duration::from_secs(20);
    let holder = Client::new(nodes.store(TTL).await).unwrap();
    let rival = Client::new(nodes.store(TTL).await).unwrap();
    let one = holder.semaphore("single", 1).with_ttl(ttl);
    let guard = one.with_renew(Renew::Never).acquire().await.unwrap();
    nodes.0.0[2].cli(&["DEL", "lock:single"]);
    nodes.server(0).restart(Data::Lost);
    for _ in 0..10 {
        let asked = rival
            .semaphore("single", 1)
            .with_ttl(ttl)
            .try_acquire()
            .await;
        assert!(!matches!(asked, Ok(Some(_))), "given by a node that forgot");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    guard.check().unwrap();
    // One of three nodes still has it: whether that is a loss is not the question here.
    let _ = guard.release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_is_given_again_under_the_same_number_where_it_was_lost() {
    let nodes = Nodes::start(3);
    let client = nodes.client().await;
    let pool = client
        .semaphore("again", 5)
        .with_ttl(Duration::from_secs(10));
    let guards = [
        pool.acquire_many(2).await.unwrap(),
        pool.acquire().await.unwrap(),
    ];
    let mut before = Vec::new();
    until("all nodes have given them", async || {
        before = slots(&nodes, "again");
        before[0].len() == 2 && before.iter().all(|slots| *slots == before[0])
    })
    .await;
    nodes.0.0[1].cli(&["DEL", "lock:again"]);
    until("all have them", async || {
        let now = slots(&nodes, "again");
        now.iter().all(|slots| *slots == before[0])
            && nodes.values("again").iter().all(|value| value != "(nil)")
    })
    .await;
    for guard in guards {
        guard.check().unwrap();
        guard.release().await.unwrap();
    }
    nothing_left(&nodes, "again").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_on_half_of_the_nodes_is_lost_and_the_others_are_not() {
    let nodes = Nodes::start(3);
    let client = nodes.client().await;
    let pool = client
        .semaphore("half", 2)
        .with_ttl(Duration::from_secs(10));
    let (kept, lost) = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    let victim = lost.owner().as_str().to_owned();
    until("the guard knows", async || {
        for server in &nodes.0.0[..2] {
            let key = server.cli(&["KEYS", "lock:{*}~held:half"]);
            let members = server.cli(&["ZRANGE", key.trim(), "0", "-1"]);
            for member in members.lines().filter(|line| line.contains(&victim)) {
                let (_, owner) = member.split_once(&victim).unwrap();
                let member = format!("{victim}{}", owner.trim_end_matches('"'));
                server.cli(&["ZREM", key.trim(), &member]);
            }
        }
        lost.check().is_err()
    })
    .await;
    kept.check().unwrap();
    // The rest of it goes with its release, and there is room again.
    drop(lost);
    let next = pool.acquire().await.unwrap();
    kept.check().unwrap();
    next.release().await.unwrap();
    kept.release().await.unwrap();
    nothing_left(&nodes, "half").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_handed_over_to_another_process() {
    let mut nodes = Nodes::start(3);
    let (one, two) = (nodes.client().await, nodes.client().await);
    let pool = one.semaphore("handed over", 4).with_ttl(TTL);
    let lease = pool
        .acquire_many(3)
        .await
        .unwrap()
        .into_lease()
        .await
        .unwrap();
    let text = lease.to_string();
    drop(one);
    nodes.server(1).pause();
    let lease: Lease = text.parse().unwrap();
    let guard = two.adopt(lease).await.unwrap();
    guard.extend(TTL).await.unwrap();
    nodes.server(1).resume();
    assert_eq!(two.inspect("handed over").await.unwrap().holders.len(), 1);
    guard.release().await.unwrap();
    nothing_left(&nodes, "handed over").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b25_permits_that_were_asked_for_and_not_waited_for_come_back() {
    let nodes = Nodes::start(3);
    let client = nodes.client().await;
    let pool = client.semaphore("dropped", 2).with_ttl(TTL);
    for polls in 1..25 {
        let limit = Duration::from_millis(100);
        drop(tokio::time::timeout(limit, drop_after(pool.acquire_many(2), polls)).await);
    }
    let all = pool.acquire_many(2).await.unwrap();
    all.release().await.unwrap();
    nothing_left(&nodes, "dropped").await;
}
