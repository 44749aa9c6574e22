//! Fewer than half of the nodes are dead, hung, cut off or slow.

use std::time::{Duration, Instant};

use leasehold::{Client, ErrorKind, Renew};
use leasehold_testkit::{proxy::Proxy, servers::Data};

use crate::{Nodes, is_deep, size, until};

const TTL: Duration = Duration::from_secs(10);

/// Takes and gives up a lock a few times, from two clients in turn, and sees that they exclude
/// each other and that fencing tokens rise. It must not take the life of a lease.
async fn works(clients: &[Client; 2], name: &str, last: &mut u64) {
    let ttl = Duration::from_secs(60);
    for round in 0..6 {
        let (one, two) = (&clients[round % 2], &clients[(round + 1) % 2]);
        let lock = one.lock(name).with_ttl(ttl);
        let guard = lock.acquire_timeout(ttl / 2).await.unwrap();
        assert!(guard.fencing_token().get() > *last, "fencing tokens rise");
        *last = guard.fencing_token().get();
        assert!(two.lock(name).try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b16_b20_dead_and_hung_minorities_cost_nothing() {
    for (count, broken) in [(3, 1), (5, 2)] {
        let mut nodes = Nodes::start(count);
        let clients = [nodes.client().await, nodes.client().await];
        let mut last = 0;
        works(&clients, "a", &mut last).await;
        for at in 0..broken {
            nodes.server(at).pause();
        }
        works(&clients, "a", &mut last).await;
        for at in 0..broken {
            nodes.server(at).resume();
            nodes.server(at).kill();
        }
        works(&clients, "a", &mut last).await;
        for at in 0..broken {
            nodes.server(at).start_again(Data::Kept);
        }
        works(&clients, "a", &mut last).await;
        // Now the others: the ones that were away have no vote yet, so a majority is just there.
        for at in 0..broken {
            nodes.server(at).kill();
            nodes.server(at).start_again(Data::Lost);
        }
        works(&clients, "a", &mut last).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_off_or_slow_costs_nothing() {
    let nodes = Nodes::start(3);
    let proxy = Proxy::start(nodes.0.0[0].address()).await;
    let others: Vec<String> = nodes.0.0[1..]
        .iter()
        .map(|it| it.address().to_string())
        .collect();
    let url = format!(
        "redlock://{},{}?assume_fresh=1",
        proxy.address(),
        others.join(",")
    );
    let clients = [
        Client::connect(&url).await.unwrap(),
        Client::connect(&url).await.unwrap(),
    ];
    let mut last = 0;
    for fault in [Proxy::black_hole, Proxy::refuse, Proxy::swallow_replies] {
        fault(&proxy);
        works(&clients, "cut off", &mut last).await;
        proxy.recover();
        works(&clients, "cut off", &mut last).await;
    }
    proxy.delay(Duration::from_millis(500));
    works(&clients, "cut off", &mut last).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_hung_node_was_given_late_is_taken_back() {
    let mut nodes = Nodes::start(3);
    let client = nodes.client().await;
    nodes.server(2).pause();
    let guard = client.lock("late").with_ttl(TTL).acquire().await.unwrap();
    nodes.server(2).resume();
    let owner = guard.owner().as_str().to_owned();
    until("the late node has it too", async || {
        nodes
            .values("late")
            .iter()
            .all(|value| value.starts_with(&owner))
    })
    .await;
    nodes.server(2).pause();
    guard.release().await.unwrap();
    nodes.server(2).resume();
    until("nothing is left", async || {
        nodes.values("late").iter().all(|value| value == "(nil)")
    })
    .await;
}

/// A node that votes when the lock is had gives a later fencing token of its own, and one that
/// gives up late has a lease that is over: neither is what the nodes say together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_late_node_has_is_not_what_is_seen() {
    let mut nodes = Nodes::start(3);
    let (client, operator) = (nodes.client().await, nodes.client().await);
    nodes.server(2).pause();
    let lock = client.lock("late").with_ttl(Duration::from_secs(60));
    let guard = lock.with_renew(Renew::Never).acquire().await.unwrap();
    // Tokens follow the clock by the second.
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    nodes.server(2).resume();
    let owner = guard.owner().as_str().to_owned();
    until("the late node has it, under a greater token", async || {
        let late = nodes.values("late").pop().unwrap_or_default();
        let token = late.strip_prefix(&owner).map(str::parse::<u64>);
        token.is_some_and(|token| token.unwrap() > guard.fencing_token().get())
    })
    .await;
    let holder = operator.inspect("late").await.unwrap().holders.remove(0);
    assert_eq!(holder.token, Some(guard.fencing_token()));
    let rest = format!("{owner}{}", guard.fencing_token());
    guard.release().await.unwrap();

    // Of the lease that is over one node has a rest, which the operator still names.
    until("given up everywhere", async || {
        nodes.values("late").iter().all(|value| value == "(nil)")
    })
    .await;
    nodes
        .server(2)
        .cli(&["SET", "lock:late", &rest, "PX", "60000"]);
    assert!(!operator.force_release("late", &owner).await.unwrap());
    assert_eq!(nodes.values("late"), ["(nil)"; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b08_a_renewal_that_misses_the_majority_loses_nothing() {
    let mut nodes = Nodes::start(3);
    let client = nodes.client().await;
    let guard = client.lock("kept").with_ttl(TTL).acquire().await.unwrap();
    // Longer than until a renewal, shorter than the validity.
    nodes.server(0).pause();
    nodes.server(1).pause();
    tokio::time::sleep(TTL * 2 / 5).await;
    nodes.server(0).resume();
    nodes.server(1).resume();
    let begun = Instant::now();
    while begun.elapsed() < TTL * 4 / 5 {
        guard.check().unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b21_without_a_majority_each_node_s_cause_is_named_and_the_lock_is_lost() {
    let mut nodes = Nodes::start(3);
    let client = nodes.client().await;
    let guard = client.lock("lost").with_ttl(TTL).acquire().await.unwrap();
    nodes.server(0).kill();
    nodes.server(1).kill();
    let asked = client.lock("other").with_renew(Renew::Never);
    let refused = asked.try_acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    let message = refused.to_string();
    for server in &nodes.0.0 {
        let address = server.address().to_string();
        assert!(message.contains(&address), "{address} in {message}");
    }
    until("the guard knows", async || guard.check().is_err()).await;
}

/// How long it takes to have a lock and to give it up again.
async fn timed(client: &Client) -> Duration {
    let begun = Instant::now();
    let guard = client.lock("timed").acquire().await.unwrap();
    let took = begun.elapsed();
    guard.release().await.unwrap();
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b16_a_hung_node_makes_acquiring_no_slower() {
    let rounds = size(100, 2_000);
    let (well, mut hung) = (Nodes::start(3), Nodes::start(3));
    let clients = [well.client().await, hung.client().await];
    hung.server(1).pause();
    let mut took = [Vec::new(), Vec::new()];
    // In turn, so that what else the machine does befalls both.
    for _ in 0..rounds {
        for (client, took) in clients.iter().zip(&mut took) {
            took.push(timed(client).await);
        }
    }
    let median = |took: &mut Vec<Duration>| {
        took.sort_unstable();
        took[took.len() / 2].as_secs_f64() * 1e6
    };
    let [well, hung] = took.each_mut().map(median);
    let ratio = hung / well;
    eprintln!("{rounds} each: {well:.0} us, with one of three hung {hung:.0} us: {ratio:.2} times");
    if is_deep() {
        assert!(ratio <= 1.3, "{ratio:.2}");
    }
}
