//! Waiting in the queue and being served.

use std::time::Duration;

use leasehold::backend::{Backend, Event, Wait};
use tokio::time::{Instant, sleep};

use super::{
    BRIEF, LONG, Peer, SHORT, SOON, Topology,
    peer::{request, waiting},
};

/// Waiters are served in the order in which they came, each with a greater fencing token.
pub async fn waiters_are_served_first_come_first_served<T: Topology>(store: &T) {
    let holder = Peer::join(store).await;
    if super::lacks(holder.backend.capabilities().fair, "fair") {
        return;
    }
    let lease = holder.take("fifo").await;
    let peers = [
        Peer::join(store).await,
        Peer::join(store).await,
        Peer::join(store).await,
    ];
    let mut waits = Vec::new();
    for (index, peer) in peers.iter().cycle().take(5).enumerate() {
        let (request, queued) = peer.queue("fifo").await;
        assert_eq!(queued.place as usize, index);
        waits.push((peer, request, queued.ticket));
    }
    assert!(waits.is_sorted_by(|a, b| a.2 < b.2), "tickets rise");
    let (mut owner, mut token) = (lease.owner, lease.grant.token);
    for (peer, request, _) in &waits {
        holder.release("fifo", &owner).await;
        let lease = peer.granted_within(request, SOON).await;
        assert!(lease.grant.token > token);
        (owner, token) = (lease.owner, lease.grant.token);
    }
}

/// A release hands the lock to the first waiter in the same step, and tells it.
pub async fn a_release_hands_over_and_tells<T: Topology>(store: &T) {
    let (holder, mut waiter) = (Peer::join(store).await, Peer::join(store).await);
    if super::lacks(waiter.backend.capabilities().hand_off, "hand_off") {
        return;
    }
    let lease = holder.take("handed").await;
    let (wait, queued) = waiter.queue("handed").await;
    assert_eq!(queued.place, 0);
    assert_eq!(
        queued.holder.and_then(|holder| holder.owner()).as_ref(),
        Some(&lease.owner)
    );
    holder.release("handed", &lease.owner).await;
    assert_eq!(holder.holders("handed").await, [wait.owner.as_str()]);
    assert!(holder.waiters("handed").await.is_empty());
    let (token, seq) = waiter.granted_by_event(&wait.owner).await;
    assert!(token > lease.grant.token);
    assert_eq!(seq, 0);
    assert_eq!(
        waiter.granted(&wait).await.grant.token,
        token,
        "asking again tells the same"
    );
}

/// The event carries the number of the last attempt that the store had processed.
pub async fn the_event_repeats_the_last_number<T: Topology>(store: &T) {
    let (holder, mut waiter) = (Peer::join(store).await, Peer::join(store).await);
    if super::lacks(waiter.backend.capabilities().hand_off, "hand_off") {
        return;
    }
    let lease = holder.take("numbered").await;
    let (wait, queued) = waiter.queue("numbered").await;
    for seq in 1..=3 {
        waiter
            .queued(&waiting(wait.clone(), seq, Some(queued.ticket)))
            .await;
    }
    holder.release("numbered", &lease.owner).await;
    let (_, seq) = waiter.granted_by_event(&wait.owner).await;
    assert_eq!(seq, 3);
}

/// A lease that was handed over lives a full TTL from then.
pub async fn a_handed_over_lease_has_a_full_ttl<T: Topology>(store: &T) {
    let (holder, mut waiter) = (Peer::join(store).await, Peer::join(store).await);
    if super::lacks(waiter.backend.capabilities().hand_off, "hand_off") {
        return;
    }
    let lease = holder.take_for("full", SOON).await;
    let (wait, _) = waiter.queue("full").await;
    sleep(Duration::from_millis(50)).await;
    let begun = Instant::now();
    holder.release("full", &lease.owner).await;
    waiter.granted_by_event(&wait.owner).await;
    let remaining = waiter.status("full").await.holders[0].remaining.unwrap();
    let slack = Duration::from_millis(2); // both round to whole milliseconds
    assert!(remaining + begun.elapsed() + slack >= LONG, "{remaining:?}");
}

/// Asking again keeps the ticket and the place.
pub async fn a_repeated_wait_keeps_its_place<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    if !peer.keeps_queue() {
        return;
    }
    peer.take("kept place").await;
    let (first, queued) = peer.queue("kept place").await;
    let (second, _) = peer.queue("kept place").await;
    let again = peer
        .queued(&waiting(first.clone(), 1, Some(queued.ticket)))
        .await;
    assert_eq!((again.place, again.ticket), (0, queued.ticket));
    let order = peer.waiters("kept place").await;
    assert_eq!(order, [first.owner.as_str(), second.owner.as_str()]);
}

/// A ticket from an earlier answer takes up the old place after the queue forgot the waiter.
pub async fn a_ticket_takes_up_the_old_place<T: Topology>(store: &T) {
    let peer = Peer::join(store).await;
    if super::lacks(peer.backend.capabilities().tickets, "tickets") {
        return;
    }
    peer.take("old place").await;
    let (first, queued) = peer.queue("old place").await;
    let (second, _) = peer.queue("old place").await;
    peer.release("old place", &first.owner).await;
    assert_eq!(peer.waiters("old place").await, [second.owner.as_str()]);
    peer.queued(&waiting(first.clone(), 1, Some(queued.ticket)))
        .await;
    let order = peer.waiters("old place").await;
    assert_eq!(order, [first.owner.as_str(), second.owner.as_str()]);
}

/// A waiter that withdrew is not served any more; the one behind it is.
pub async fn a_withdrawn_waiter_is_never_served<T: Topology>(store: &T) {
    let (holder, peer) = (Peer::join(store).await, Peer::join(store).await);
    if !holder.keeps_queue() {
        return;
    }
    let lease = holder.take("withdrawn").await;
    let (first, _) = peer.queue("withdrawn").await;
    let (second, _) = peer.queue("withdrawn").await;
    peer.release("withdrawn", &first.owner).await;
    assert_eq!(peer.waiters("withdrawn").await, [second.owner.as_str()]);
    holder.release("withdrawn", &lease.owner).await;
    let served = peer.granted_within(&second, SOON).await;
    assert_eq!(peer.holders("withdrawn").await, [served.owner.as_str()]);
    peer.release("withdrawn", &served.owner).await;
    assert!(peer.status("withdrawn").await.is_free());
}

/// A grant that crossed the withdrawal is undone by it and passed on.
pub async fn b25_a_withdrawal_undoes_a_grant_that_crossed_it<T: Topology>(store: &T) {
    let (holder, peer) = (Peer::join(store).await, Peer::join(store).await);
    let lease = holder.take("crossed").await;
    let (first, _) = peer.queue("crossed").await;
    let (second, _) = peer.queue("crossed").await;
    holder.release("crossed", &lease.owner).await;
    peer.release("crossed", &first.owner).await;
    peer.granted_within(&second, SOON).await;
    assert!(peer.waiters("crossed").await.is_empty());
}

/// The lock of a holder that fell silent passes on when its lease ends, not later.
pub async fn b12_an_expired_lease_passes_to_the_first_waiter<T: Topology>(store: &T) {
    let (holder, waiter) = (Peer::join(store).await, Peer::join(store).await);
    if !holder.keeps_queue() {
        return;
    }
    let begun = Instant::now();
    holder.take_for("silent", BRIEF).await;
    let (wait, queued) = waiter.queue("silent").await;
    assert!(
        queued.change_in <= BRIEF,
        "told to come back in {:?}",
        queued.change_in
    );
    let (second, _) = waiter.queue("silent").await;
    waiter.granted_within(&wait, SOON).await;
    assert!(
        begun.elapsed() + Duration::from_millis(20) >= BRIEF,
        "too early"
    );
    assert_eq!(waiter.waiters("silent").await, [second.owner.as_str()]);
}

/// A waiter that is not heard from loses its place when its patience is over.
pub async fn a_silent_waiter_loses_its_place<T: Topology>(store: &T) {
    let (holder, peer) = (Peer::join(store).await, Peer::join(store).await);
    if !holder.keeps_queue() {
        return;
    }
    let lease = holder.take("patience").await;
    let mut silent = request("patience", &peer.owner());
    silent.wait = Some(Wait::new(0, None, Duration::from_secs(1)));
    peer.queued(&silent).await;
    let (heard, _) = peer.queue("patience").await;
    let begun = Instant::now();
    while peer
        .waiters("patience")
        .await
        .first()
        .is_some_and(|first| *first != *heard.owner.as_str())
    {
        assert!(begun.elapsed() < SOON, "still in front");
        sleep(Duration::from_millis(20)).await;
    }
    holder.release("patience", &lease.owner).await;
    assert_eq!(peer.holders("patience").await, [heard.owner.as_str()]);
}

/// Patience counts from the last attempt, not from the first.
pub async fn b13_asking_again_renews_the_patience<T: Topology>(store: &T) {
    let (holder, peer) = (Peer::join(store).await, Peer::join(store).await);
    if !holder.keeps_queue() {
        return;
    }
    let lease = holder.take("alive").await;
    let mut alive = request("alive", &peer.owner());
    let patience = Duration::from_secs(4);
    alive.wait = Some(Wait::new(0, None, patience));
    let ticket = peer.queued(&alive).await.ticket;
    let (behind, _) = peer.queue("alive").await;
    let begun = Instant::now();
    for seq in 1.. {
        sleep(patience / 10).await;
        alive.wait = Some(Wait::new(seq, Some(ticket), patience));
        peer.queued(&alive).await;
        if begun.elapsed() > patience * 3 / 2 {
            break;
        }
    }
    let order = peer.waiters("alive").await;
    assert_eq!(order, [alive.owner.as_str(), behind.owner.as_str()]);
    holder.release("alive", &lease.owner).await;
    assert_eq!(peer.holders("alive").await, [alive.owner.as_str()]);
}

/// A waiter whose client is gone does not block those behind it for longer than its patience.
pub async fn a_gone_waiter_does_not_block_those_behind<T: Topology>(store: &T) {
    let (holder, gone) = (Peer::join(store).await, Peer::join(store).await);
    let live = Peer::join(store).await;
    let lease = holder.take("gone").await;
    let mut wait = request("gone", &gone.owner());
    wait.wait = Some(Wait::new(0, None, Duration::from_secs(1)));
    wait.ttl = leasehold::backend::Ttl::new(Duration::from_secs(1)).unwrap();
    gone.queued(&wait).await;
    let (behind, _) = live.queue("gone").await;
    drop(gone);
    holder.release("gone", &lease.owner).await;
    // At worst it was handed the lock: then its lease ends after a second.
    live.granted_within(&behind, SOON).await;
}

/// An owner whose lease ended while it still asks is served anew, under a new fencing token.
pub async fn a_waiter_that_missed_its_grant_is_served_again<T: Topology>(store: &T) {
    let (holder, mut waiter) = (Peer::join(store).await, Peer::join(store).await);
    if super::lacks(waiter.backend.capabilities().hand_off, "hand_off") {
        return;
    }
    let lease = holder.take("missed").await;
    let mut wait = waiting(request("missed", &waiter.owner()), 0, None);
    wait.ttl = leasehold::backend::Ttl::new(SHORT).unwrap();
    waiter.queued(&wait).await;
    holder.release("missed", &lease.owner).await;
    let (token, _) = waiter.granted_by_event(&wait.owner).await;
    let begun = Instant::now();
    while !waiter.status("missed").await.is_free() {
        assert!(begun.elapsed() < SOON, "still held");
        sleep(Duration::from_millis(10)).await;
    }
    let again = waiter.granted(&waiting(wait, 1, None)).await;
    assert!(again.grant.token > token);
}

/// Events that nobody reads do not block the store.
pub async fn unread_events_block_nobody<T: Topology>(store: &T) {
    let (peer, mut reader) = (Peer::join(store).await, Peer::join(store).await);
    for _ in 0..50 {
        let lease = peer.take("unread").await;
        let (wait, _) = peer.queue("unread").await;
        peer.release("unread", &lease.owner).await;
        let lease = peer.granted_within(&wait, SOON).await;
        peer.release("unread", &lease.owner).await;
    }
    let lease = peer.take("unread").await;
    let (wait, _) = reader.queue("unread").await;
    peer.release("unread", &lease.owner).await;
    if reader.backend.capabilities().hand_off {
        let event = reader.event(&wait.owner).await;
        assert!(matches!(event, Event::Granted { .. } | Event::Again { .. }));
    }
    reader.granted_within(&wait, SOON).await;
}
