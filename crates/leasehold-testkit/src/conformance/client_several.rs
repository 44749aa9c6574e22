//! Several locks under one guard, by the public API.

use std::time::Duration;

use leasehold::ErrorKind;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    SOON, Topology,
    client::{client, nothing_left, take, waiters},
};
use crate::sim::cancel::drop_after;

/// Two that name the same locks in opposite orders do not wait for each other for ever, and no
/// third that takes only one of them keeps them out.
pub async fn b33_opposite_orders_do_not_block_each_other<T: Topology>(store: &T) {
    let clients = [client(store).await, client(store).await];
    let mut tasks = JoinSet::new();
    for (number, order) in [["x", "y"], ["y", "x"], ["x", "y"], ["y", "x"]]
        .into_iter()
        .enumerate()
    {
        let all = clients[number % 2].lock_all(order);
        tasks.spawn(async move {
            for _ in 0..15 {
                let guard = all.acquire_timeout(SOON).await.expect("in turn");
                sleep(Duration::from_millis(2)).await;
                guard.check().unwrap();
                guard.release().await.unwrap();
            }
        });
    }
    let single = clients[1].lock("y");
    tasks.spawn(async move {
        for _ in 0..30 {
            single.acquire().await.unwrap().release().await.unwrap();
        }
    });
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    nothing_left(&clients[0], "x").await;
    nothing_left(&clients[0], "y").await;
}

/// A name given twice counts once; none, and too many, are refused.
pub async fn b33_a_duplicate_counts_once<T: Topology>(store: &T) {
    let client = client(store).await;
    let all = client.lock_all(["twice", "twice"]);
    let guard = all.try_acquire().await.unwrap().expect("it is free");
    assert_eq!(guard.guards().len(), 1);
    guard.release().await.unwrap();
    nothing_left(&client, "twice").await;
    for count in [0, 257] {
        let names = (0..count).map(|number| format!("n{number}"));
        let error = client.lock_all(names).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{count}");
    }
    let most = (0..256).map(|number| format!("n{number}"));
    let most: Vec<String> = most.collect();
    let guard = timeout(SOON, client.lock_all(&most[..]).acquire()).await;
    let guard = guard.expect("in time").unwrap();
    assert_eq!(guard.guards().len(), 256);
    guard.release().await.unwrap();
    assert!(client.list("").await.unwrap().is_empty());
}

/// One that is lost loses the set; the others are still given back, and a stranger's is not.
pub async fn b33_one_lost_is_all_lost<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let guard = one.lock_all(["set/x", "set/y"]).acquire().await.unwrap();
    let tokens = guard.guards().iter().map(|it| it.fencing_token().get());
    assert!(tokens.min().is_some_and(|token| token > 0));
    let victim = guard.guard("set/x").expect("held").owner().clone();
    assert!(two.force_release("set/x", victim.as_str()).await.unwrap());
    let stranger = take(&two, "set/x").await;
    let (name, _) = timeout(SOON, guard.lost()).await.expect("told");
    assert_eq!(name.as_str(), "set/x");
    assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
    assert!(guard.remaining().is_zero());
    let error = guard.release().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.lock_name()),
        (ErrorKind::Lost, Some("set/x"))
    );
    stranger.check().unwrap();
    nothing_left(&two, "set/y").await;
    stranger.release().await.unwrap();
}

/// A timeout names what was held to the end and leaves nothing; so does a cancelled wait.
pub async fn b33_giving_up_leaves_nothing<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let busy = take(&two, "give/y").await;
    let all = one.lock_all(["give/z", "give/y", "give/x"]);
    let error = all.acquire_timeout(super::BRIEF).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.lock_name()),
        (ErrorKind::Timeout, Some("give/y"))
    );
    for name in ["give/x", "give/z"] {
        nothing_left(&two, name).await;
    }
    for polls in (1..40).step_by(3) {
        // A waiter that is not served is polled only so often.
        let limit = Duration::from_millis(50);
        drop(timeout(limit, drop_after(all.acquire(), polls)).await);
        for name in ["give/x", "give/z"] {
            nothing_left(&two, name).await;
        }
        waiters(&two, "give/y", 0).await;
    }
    busy.check().unwrap();
    busy.release().await.unwrap();
    nothing_left(&two, "give/y").await;
}
