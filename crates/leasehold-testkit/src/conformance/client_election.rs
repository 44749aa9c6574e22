//! Elections, by the public API.

use std::{future::poll_fn, pin::Pin};

use futures_core::Stream;
use leasehold::{ErrorKind, Leader, Observe};
use tokio::time::timeout;

use super::{
    SOON, Topology,
    client::{client, nothing_left, waiters},
};

async fn next(seen: &mut Observe) -> Option<Leader> {
    let next = poll_fn(|context| Pin::new(&mut *seen).poll_next(context));
    timeout(SOON, next).await.expect("in time").expect("no end")
}

/// What the leader publishes is seen by those who ask and by those who look on.
pub async fn a_leader_is_observed<T: Topology>(store: &T) {
    let (one, two) = (client(store).await, client(store).await);
    let election = one.election("observed");
    if !one.capabilities().notes {
        let refused = election.campaign("me").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        return;
    }
    let mut seen = two.election("observed").observe();
    assert_eq!(next(&mut seen).await, None);
    let leads = election.campaign("host-3").await.unwrap();
    let mut leader = next(&mut seen).await.expect("one leads");
    if leader.value.is_empty() {
        leader = next(&mut seen).await.expect("one leads");
    }
    assert_eq!(
        (leader.value.as_str(), leader.term),
        ("host-3", leads.term())
    );
    leads.proclaim("host-3:8080").await.unwrap();
    assert_eq!(
        next(&mut seen).await.expect("one leads").value,
        "host-3:8080"
    );
    let error = leads.proclaim("v".repeat(5000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    leads.check().unwrap();
    leads.resign().await.unwrap();
    assert_eq!(next(&mut seen).await, None);
    nothing_left(&one, "observed").await;
}

/// A leader that was put out stops leading, and the next leads under a greater term.
pub async fn b24_a_lead_that_is_lost_passes_on_under_a_greater_term<T: Topology>(store: &T) {
    let clients = [client(store).await, client(store).await];
    if super::lacks(clients[0].capabilities().notes, "notes") {
        return;
    }
    let mut leads = clients[0].election("terms").campaign("0").await.unwrap();
    for turn in 1..4_usize {
        let (here, there) = (&clients[turn % 2], &clients[(turn + 1) % 2]);
        let election = here.election("terms");
        let stands = tokio::spawn(async move { election.campaign(turn.to_string()).await });
        waiters(there, "terms", 1).await;
        let owner = leads.guard().owner().clone();
        assert!(there.force_release("terms", owner.as_str()).await.unwrap());
        let next = timeout(SOON, stands)
            .await
            .expect("elected")
            .unwrap()
            .unwrap();
        assert!(next.term() > leads.term());
        timeout(SOON, leads.lost()).await.expect("told");
        assert_eq!(leads.check().unwrap_err().kind(), ErrorKind::Lost);
        let late = leads.proclaim("too late").await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Lost);
        let leader = there
            .election("terms")
            .leader()
            .await
            .unwrap()
            .expect("one leads");
        assert_eq!((leader.value, leader.term), (turn.to_string(), next.term()));
        leads = next;
    }
    leads.resign().await.unwrap();
    nothing_left(&clients[0], "terms").await;
}
