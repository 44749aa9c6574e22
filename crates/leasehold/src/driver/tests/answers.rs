//! Answers that are lost, late or contrary.

use std::time::Duration;

use super::{
    client,
    shaky::{Call, Fate, Shaky},
};
use crate::{
    Client, ErrorKind, Loss,
    backend::{Event, FencingToken, memory::Memory},
};

/// A client on a bad line, and one on a good line to the same store.
fn both(memory: &Memory) -> (Shaky, Client, Client) {
    let shaky = Shaky::new(memory);
    let bad = Client::new(shaky.clone()).expect("a runtime is there");
    (shaky, bad, client(memory))
}

#[tokio::test(start_paused = true)]
async fn b05_a_grant_known_by_its_push_alone_is_given_back() {
    let memory = Memory::new();
    let (shaky, bad, good) = both(&memory);
    let guard = good.lock("job").acquire().await.expect("free");
    // The first attempt enters the queue and is never answered; the push comes when little of the
    // lease is left; what would confirm it is lost, and then nothing can be sent any more.
    shaky.plan(Call::Acquire, Fate::NoAnswer);
    shaky.plan(Call::Renew, Fate::Unsent);
    for _ in 0..200 {
        shaky.plan(Call::Acquire, Fate::Unsent);
    }
    let lock = bad.lock("job").with_ttl(Duration::from_secs(3));
    let limit = Duration::from_secs(4);
    let waiter = tokio::spawn(async move { lock.acquire_timeout(limit).await });
    tokio::time::sleep(Duration::from_millis(1_600)).await;
    guard.release().await.expect("held");
    waiter.await.expect("no panic").expect_err("out of reach");
    bad.driver().shared.reaping.idle().await;
    assert_eq!(shaky.released(), 1, "the grant stays with nobody");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_cut_by_the_time_limit_is_a_timeout() {
    let memory = Memory::new();
    let (shaky, bad, good) = both(&memory);
    let _guard = good.lock("job").acquire().await.expect("free");
    // The sign of life that is due after 3 s is under way when the time is up.
    shaky.plan(Call::Acquire, Fate::Good);
    shaky.plan(Call::Acquire, Fate::Late(Duration::from_secs(2)));
    let lock = bad.lock("job");
    let told = lock.acquire_timeout(Duration::from_millis(3_900)).await;
    let told = told.expect_err("held by another");
    assert_eq!(told.kind(), ErrorKind::Timeout, "{told:?}");
    assert!(told.holder().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_store_away_at_the_end_is_not_called_held_by_another() {
    let memory = Memory::new();
    let (shaky, bad, good) = both(&memory);
    let _guard = good.lock("job").acquire().await.expect("free");
    shaky.plan(Call::Acquire, Fate::Good);
    shaky.plan(Call::Acquire, Fate::Swallowed);
    shaky.plan(Call::Release, Fate::Swallowed);
    let lock = bad.lock("job");
    let told = lock.acquire_timeout(Duration::from_millis(3_900)).await;
    assert_eq!(told.expect_err("no answer").kind(), ErrorKind::Ambiguous);
}

#[tokio::test(start_paused = true)]
async fn confirming_a_push_keeps_to_the_time_limit() {
    let memory = Memory::new();
    let (shaky, bad, good) = both(&memory);
    let guard = good.lock("job").acquire().await.expect("free");
    shaky.plan(Call::Acquire, Fate::NoAnswer);
    shaky.plan(Call::Renew, Fate::Swallowed);
    let lock = bad.lock("job").with_ttl(Duration::from_secs(3));
    let clock = bad.clock();
    let began = clock.now();
    let waiter = tokio::spawn(async move { lock.acquire_timeout(Duration::from_secs(2)).await });
    tokio::time::sleep(Duration::from_millis(1_800)).await;
    guard.release().await.expect("held");
    waiter.await.expect("no panic").expect_err("not confirmed");
    assert!(clock.now() - began <= Duration::from_millis(3_010));
}

#[tokio::test(start_paused = true)]
async fn a_newer_grant_of_the_same_owner_is_released_with_the_loss() {
    let memory = Memory::new();
    let (shaky, bad, good) = both(&memory);
    let guard = bad.lock("job").acquire().await.expect("free");
    let token = FencingToken::new(guard.fencing_token().get() + 1).expect("in range");
    shaky.tell(Event::Granted {
        name: guard.name().clone(),
        owner: guard.owner().clone(),
        token,
        seq: 0,
    });
    assert_eq!(guard.lost().await, Loss::Taken);
    // The guard is kept, as by a caller that is stuck: the store is told all the same.
    bad.driver().shared.reaping.idle().await;
    let next = good.lock("job").try_acquire().await;
    assert!(next.expect("answered").is_some());
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_release_is_tried_for_as_long_as_an_extended_lease_lives() {
    let memory = Memory::new();
    let (shaky, bad, good) = both(&memory);
    let lock = bad.lock("job").with_ttl(Duration::from_secs(1));
    let guard = lock.acquire().await.expect("free");
    let hour = Duration::from_secs(3_600);
    guard.extend(hour).await.expect("held");
    for _ in 0..200 {
        shaky.plan(Call::Release, Fate::Unsent);
    }
    drop(guard);
    let next = good.lock("job").acquire_timeout(hour / 2).await;
    drop(next.expect("released when the line was good again"));
}

#[tokio::test(start_paused = true)]
async fn an_adoption_answered_too_late_is_no_guard() {
    let memory = Memory::new();
    let (shaky, bad, good) = both(&memory);
    let lock = good.lock("job").with_ttl(Duration::from_secs(1));
    let guard = lock.acquire().await.expect("free");
    let lease = guard.into_lease().await.expect("handed over");
    shaky.plan(Call::Renew, Fate::Late(Duration::from_millis(950)));
    let told = bad.adopt(lease).await.expect_err("too late");
    assert_eq!(told.kind(), ErrorKind::Unavailable);
    bad.driver().shared.reaping.idle().await;
    assert_eq!(shaky.released(), 0, "it can be adopted again");
}

#[tokio::test(start_paused = true)]
async fn stuck_releases_do_not_hold_up_the_others() {
    let memory = Memory::new();
    let (shaky, bad, good) = both(&memory);
    let mut stuck = Vec::new();
    for at in 0..300 {
        let lock = bad.lock(format!("stuck/{at}"));
        stuck.push(lock.acquire().await.expect("free"));
    }
    let guard = bad.lock("job").acquire().await.expect("free");
    // A part of the store is away.
    shaky.break_off("stuck");
    drop(stuck);
    tokio::task::yield_now().await;
    drop(guard);
    let limit = Duration::from_millis(200);
    let next = good.lock("job").acquire_timeout(limit).await;
    drop(next.expect("released at once"));
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_about_the_writer_does_not_release_the_reader() {
    let memory = Memory::new();
    let (shaky, bad, good) = both(&memory);
    let rw_lock = bad.rw_lock("job").with_ttl(Duration::from_secs(3));
    let writer = rw_lock.write().await.expect("free");
    shaky.plan(Call::Renew, Fate::NotOurs(Duration::from_millis(500)));
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let (name, owner) = (writer.name().clone(), writer.owner().clone());
    let token = writer.fencing_token();
    let reader = writer.downgrade().await.expect("held");
    tokio::time::sleep(Duration::from_secs(1)).await;
    shaky.tell(Event::Granted {
        name,
        owner,
        token,
        seq: 0,
    });
    tokio::time::sleep(Duration::from_secs(10)).await;
    reader.check().expect("renewed as a reader's");
    let other = good.rw_lock("job").try_write().await;
    assert!(other.expect("answered").is_none());
    bad.shutdown(Duration::from_secs(1))
        .await
        .expect("confirmed");
    reader.check().expect_err("a shutdown ends the reader too");
}

#[tokio::test(start_paused = true)]
async fn a_minimum_hold_does_not_lengthen_the_renewals() {
    let memory = Memory::new();
    let client = client(&memory);
    let hour = Duration::from_secs(3_600);
    let lock = client.lock("job").with_min_hold(hour);
    let guard = lock.acquire().await.expect("free");
    assert_eq!(guard.ttl().get(), Duration::from_secs(30));
    assert!(guard.remaining() > hour * 9 / 10);
    tokio::time::sleep(hour * 2).await;
    guard.check().expect("renewed");
    let status = client.inspect("job").await.expect("answered");
    let left = status.holders[0].remaining;
    assert!(left <= Some(Duration::from_secs(30)), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn force_before_the_guard_is_there_is_noticed_at_once() {
    let memory = Memory::new();
    let (shaky, bad, good) = both(&memory);
    shaky.plan(Call::Acquire, Fate::Late(Duration::from_millis(200)));
    let lock = bad.lock("job");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let status = good.inspect("job").await.expect("answered");
    let owner = status.holders[0]
        .owner()
        .expect("known")
        .as_str()
        .to_owned();
    assert!(good.force_release("job", &owner).await.expect("answered"));
    let guard = waiter.await.expect("no panic").expect("granted");
    let told = tokio::time::timeout(Duration::from_secs(1), guard.lost()).await;
    assert_eq!(told.expect("at once"), Loss::Missing);
}
