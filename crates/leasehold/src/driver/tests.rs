use std::time::Duration;

use crate::{Client, ErrorKind, Loss, Renew, RunError, backend::memory::Memory};

mod answers;
mod ending;
mod hand_over;
mod limits;
mod shaky;
mod storm;

fn client(memory: &Memory) -> Client {
    Client::new(memory.clone()).expect("a runtime is there")
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_had_held_and_released() {
    let memory = Memory::new();
    let lock = client(&memory).lock("job");
    let guard = lock.acquire().await.expect("free");
    assert!(guard.is_held());
    assert!(lock.try_acquire().await.expect("answered").is_none());
    let first = guard.fencing_token();
    guard.release().await.expect("held");
    let again = lock.try_acquire().await.expect("answered").expect("free");
    assert!(again.fencing_token() > first);
}

#[tokio::test(start_paused = true)]
async fn a_release_hands_the_lock_to_the_waiter() {
    let memory = Memory::new();
    let lock = client(&memory).lock("job");
    let guard = lock.acquire().await.expect("free");
    let other = client(&memory).lock("job");
    let waiter = tokio::spawn(async move { other.acquire().await });
    while lock.inspect().await.expect("answered").waiters.is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let token = guard.fencing_token();
    guard.release().await.expect("held");
    let next = waiter.await.expect("no panic").expect("its turn");
    assert!(next.fencing_token() > token);
    next.check().expect("held");
}

#[tokio::test(start_paused = true)]
async fn a_held_lock_is_renewed_for_as_long_as_it_is_held() {
    let memory = Memory::new();
    let guard = client(&memory).lock("job").acquire().await.expect("free");
    tokio::time::sleep(Duration::from_secs(600)).await;
    guard.check().expect("renewed all along");
    assert!(guard.remaining() > Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn b08_an_outage_longer_than_the_ttl_is_told_by_the_deadline() {
    let memory = Memory::new();
    let client = client(&memory);
    let lock = client.lock("job").with_ttl(Duration::from_secs(3));
    let guard = lock.acquire().await.expect("free");
    memory.unavailable(true);
    let loss = tokio::time::timeout(Duration::from_secs(3), guard.lost()).await;
    assert_eq!(loss.expect("by the deadline"), Loss::Expired);
    assert!(guard.lost_signal().is_cancelled());
    memory.unavailable(false);
    let again = lock.acquire().await.expect("free again");
    tokio::time::sleep(Duration::from_secs(10)).await;
    again.check().expect("renewed after the outage too");
    assert_eq!(
        guard.release().await.expect_err("lost").kind(),
        ErrorKind::Lost
    );
    again
        .check()
        .expect("a late release takes nothing from the next holder");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_holder_knows_at_the_first_look() {
    let memory = Memory::new();
    let guard = client(&memory).lock("job").acquire().await.expect("free");
    memory.advance(Duration::from_secs(31));
    assert_eq!(guard.check().expect_err("lost").loss(), Some(Loss::Expired));
}

#[tokio::test(start_paused = true)]
async fn an_operator_puts_the_holder_out() {
    let memory = Memory::new();
    let client = client(&memory);
    let guard = client.lock("job").acquire().await.expect("free");
    assert!(
        client
            .force_release("job", guard.owner().as_str())
            .await
            .expect("answered")
    );
    assert_eq!(guard.lost().await, Loss::Revoked);
}

#[tokio::test(start_paused = true)]
async fn b02_a_lease_the_store_lost_is_lost_and_not_made_again() {
    let memory = Memory::new();
    let client = client(&memory);
    let guard = client.lock("job").acquire().await.expect("free");
    memory.lose("job");
    let error = guard
        .extend(Duration::from_secs(60))
        .await
        .expect_err("gone");
    assert_eq!(error.loss(), Some(Loss::Missing));
    assert!(client.inspect("job").await.expect("answered").is_free());
}

#[tokio::test(start_paused = true)]
async fn b25_a_dropped_acquire_leaves_nothing() {
    let memory = Memory::new();
    let client = client(&memory);
    let guard = client.lock("job").acquire().await.expect("free");
    let lock = client.lock("job");
    let waits = lock.acquire_timeout(Duration::from_secs(60));
    assert!(
        tokio::time::timeout(Duration::from_millis(20), waits)
            .await
            .is_err()
    );
    client.driver().shared.reaping.idle().await;
    assert!(
        client
            .inspect("job")
            .await
            .expect("answered")
            .waiters
            .is_empty()
    );
    drop(guard);
    client.driver().shared.reaping.idle().await;
    assert!(client.inspect("job").await.expect("answered").is_free());
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_that_passes_is_a_timeout_with_the_holder() {
    let memory = Memory::new();
    let client = client(&memory);
    let guard = client
        .lock("job")
        .with_label("backup")
        .acquire()
        .await
        .expect("free");
    let lock = client.lock("job");
    let error = lock
        .acquire_timeout(Duration::from_secs(2))
        .await
        .expect_err("held");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let holder = error
        .holder()
        .and_then(|holder| holder.owner())
        .expect("known");
    assert_eq!(holder.label(), "backup");
    assert!(
        client
            .inspect("job")
            .await
            .expect("answered")
            .waiters
            .is_empty()
    );
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_when_the_lock_is_lost_and_its_late_result_is_not_hidden() {
    let memory = Memory::new();
    let lock = client(&memory).lock("job").with_renew(Renew::Never);
    assert_eq!(lock.run(async |_| 7).await.expect("in time"), 7);
    let dropped = lock.run(async |_| std::future::pending::<()>().await).await;
    assert!(matches!(dropped, Err(RunError::Lost(_))));
    let leaps = memory.clone();
    let late = lock
        .run(async move |_| {
            leaps.advance(Duration::from_secs(60));
            7
        })
        .await;
    assert!(matches!(late, Err(RunError::LostAfter(7, _))));
}

#[tokio::test]
async fn the_scope_form_can_be_spawned() {
    let lock = client(&Memory::new()).lock("job");
    let done = tokio::spawn(async move {
        lock.run(async |guard| {
            tokio::task::yield_now().await;
            guard.fencing_token().get()
        })
        .await
    });
    assert!(done.await.expect("no panic").expect("in time") > 0);
}

#[tokio::test(start_paused = true)]
async fn a_lease_goes_from_hand_to_hand() {
    let memory = Memory::new();
    let guard = client(&memory).lock("job").acquire().await.expect("free");
    let token = guard.fencing_token();
    let text = guard.into_lease().await.expect("handed over").to_string();
    let taken = client(&memory)
        .adopt(text.parse().expect("a lease"))
        .await
        .expect("still there");
    assert_eq!(taken.fencing_token(), token);
    tokio::time::sleep(Duration::from_secs(120)).await;
    taken.release().await.expect("held");
    let gone = client(&memory)
        .adopt(text.parse().expect("a lease"))
        .await
        .expect_err("released");
    assert_eq!(gone.loss(), Some(Loss::Missing));
}

#[tokio::test(start_paused = true)]
async fn shutdown_releases_what_is_held_and_refuses_more() {
    let memory = Memory::new();
    let leaving = client(&memory);
    let guard = leaving.lock("job").acquire().await.expect("free");
    leaving
        .shutdown(Duration::from_secs(1))
        .await
        .expect("confirmed");
    assert!(guard.check().is_err());
    assert_eq!(
        leaving
            .lock("job")
            .try_acquire()
            .await
            .expect_err("closed")
            .kind(),
        ErrorKind::Unavailable
    );
    assert!(
        client(&memory)
            .lock("job")
            .try_acquire()
            .await
            .expect("answered")
            .is_some()
    );
}

#[test]
fn b26_guards_outlive_their_runtime_without_a_panic() {
    let memory = Memory::new();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (client, guard) = runtime.block_on(async {
        let client = client(&memory);
        let guard = client.lock("job").acquire().await.expect("free");
        (client, guard)
    });
    drop(runtime);
    let other = tokio::runtime::Runtime::new().expect("a runtime");
    let refused = other
        .block_on(client.lock("more").acquire())
        .expect_err("no renewal");
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    drop(guard);
}

#[test]
fn a_client_without_a_runtime_has_its_own() {
    let memory = Memory::new();
    let client = client(&memory);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("one");
    let guard = runtime
        .block_on(client.lock("job").acquire())
        .expect("free");
    drop(guard);
    runtime
        .block_on(client.shutdown(Duration::from_secs(5)))
        .expect("confirmed");
}

#[test]
fn what_is_shared_may_be_shared() {
    const fn shared<T: Send + Sync + 'static>() {}
    shared::<Client>();
    shared::<crate::Lock>();
    shared::<crate::Guard>();
    shared::<crate::Error>();
}
