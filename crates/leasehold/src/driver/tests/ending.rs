//! Shutdown, and what is told at the end.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    super::Shared,
    client,
    shaky::{Call, Fate, Shaky},
};
use crate::{Client, ErrorKind, Renew, RunError, backend::memory::Memory};

#[tokio::test(start_paused = true)]
async fn shutdown_gives_the_lost_signal() {
    let memory = Memory::new();
    let client = client(&memory);
    let guard = client.lock("job").acquire().await.expect("free");
    let signal = guard.lost_signal();
    client
        .shutdown(Duration::from_secs(1))
        .await
        .expect("confirmed");
    assert!(signal.is_cancelled(), "its holder works on without a lock");
    assert!(guard.lost_signal().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_guard_given_up_gives_no_lost_signal() {
    let guard = client(&Memory::new()).lock("job").acquire().await;
    let guard = guard.expect("free");
    let signal = guard.lost_signal();
    guard.release().await.expect("held");
    assert!(!signal.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn an_adoption_does_not_outlive_the_shutdown() {
    let memory = Memory::new();
    let guard = client(&memory).lock("job").acquire().await.expect("free");
    let lease = guard.into_lease().await.expect("handed over");
    let shaky = Shaky::new(&memory);
    let leaving = Client::new(shaky.clone()).expect("a runtime is there");
    shaky.plan(Call::Renew, Fate::Late(Duration::from_secs(1)));
    let adopter = leaving.clone();
    let adoption = tokio::spawn(async move { adopter.adopt(lease).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let _ = leaving.shutdown(Duration::from_secs(5)).await;
    let refused = adoption.await.expect("no panic");
    assert_eq!(refused.expect_err("closed").kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_a_release_under_way() {
    let shaky = Shaky::new(&Memory::new());
    let client = Client::new(shaky.clone()).expect("a runtime is there");
    let guard = client.lock("job").acquire().await.expect("free");
    shaky.plan(Call::Release, Fate::Swallowed);
    let release = tokio::spawn(guard.release());
    tokio::time::sleep(Duration::from_millis(10)).await;
    client
        .shutdown(Duration::from_secs(30))
        .await
        .expect("confirmed");
    assert_eq!(shaky.released(), 1);
    release.await.expect("no panic").expect_err("unanswered");
}

#[tokio::test(start_paused = true)]
async fn shutdown_tells_of_a_release_that_was_refused() {
    let shaky = Shaky::new(&Memory::new());
    let client = Client::new(shaky.clone()).expect("a runtime is there");
    let _guard = client.lock("job").acquire().await.expect("free");
    shaky.plan(Call::Release, Fate::Denied);
    let told = client.shutdown(Duration::from_secs(30)).await;
    assert_eq!(told.expect_err("refused").kind(), ErrorKind::Ambiguous);
}

#[test]
fn shutdown_after_the_runtime_ended_is_not_called_a_success() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (client, guard) = runtime.block_on(async {
        let client = client(&Memory::new());
        let guard = client.lock("job").acquire().await.expect("free");
        (client, guard)
    });
    drop(runtime);
    let other = tokio::runtime::Runtime::new().expect("a runtime");
    let told = other.block_on(client.shutdown(Duration::from_secs(1)));
    told.expect_err("nothing was released");
    drop(guard);
}

#[test]
fn the_end_of_the_runtime_gives_the_lost_signal() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let guard = runtime.block_on(async {
        let client = client(&Memory::new());
        client.lock("job").acquire().await.expect("free")
    });
    let signal = guard.lost_signal();
    drop(runtime);
    assert!(signal.is_cancelled(), "nobody would give it later");
    assert!(guard.lost_signal().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn work_under_a_lock_that_the_store_lost_is_no_silent_success() {
    let memory = Memory::new();
    let lock = client(&memory).lock("job");
    let done = lock
        .run(async |_| {
            memory.lose("job");
            7
        })
        .await;
    assert!(matches!(done, Err(RunError::LostAfter(7, _))), "{done:?}");
}

/// Whether nothing of the client's machinery is left.
async fn is_gone(shared: Weak<Shared>) -> bool {
    for _ in 0..1_000 {
        if shared.strong_count() == 0 {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

#[tokio::test]
async fn everything_ends_with_the_last_client_and_guard() {
    let memory = Memory::new();
    let client = client(&memory);
    let guard = client.lock("job").acquire().await.expect("free");
    let lock = client.lock("job");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    waiter.abort();
    let shared = Arc::downgrade(&client.driver().shared);
    drop(client);
    let _ = waiter.await;
    guard.check().expect("a guard outlives its client");
    drop(guard);
    assert!(is_gone(shared).await);
    let left = super::client(&memory).inspect("job").await;
    let left = left.expect("answered");
    assert!(left.is_free() && left.waiters.is_empty());
    // What is left are the tasks of the client just made, which end too.
    let metrics = tokio::runtime::Handle::current().metrics();
    while metrics.num_alive_tasks() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_thread_of_its_own_ends_with_the_last_guard() {
    let memory = Memory::new();
    let client = Client::builder().own_thread().build(memory.clone());
    let client = client.expect("a thread");
    let guard = client.lock("job").acquire().await.expect("free");
    let shared = Arc::downgrade(&client.driver().shared);
    drop((client, guard));
    assert!(is_gone(shared).await);
    let status = super::client(&memory).inspect("job").await;
    assert!(status.expect("answered").is_free());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b08_no_lease_drops_out_of_renewal_among_many_threads() {
    let client = client(&Memory::new());
    let ttl = Duration::from_millis(600);
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..64_u64 {
        let lock = client.lock(format!("{at}")).with_ttl(ttl);
        tasks.spawn(async move {
            for turn in 0..40_u64 {
                let guard = lock.acquire().await.expect("free");
                if (at + turn).is_multiple_of(3) {
                    guard.extend(ttl).await.expect("held");
                }
                guard.release().await.expect("held");
            }
            let guard = lock.acquire().await.expect("free");
            for _ in 0..8 {
                guard.extend(ttl).await.expect("held");
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(ttl * 3).await;
            guard.release().await.expect("renewed all along");
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic");
    }
    assert_eq!(client.driver().shared.registry.len(), 0);
    assert_eq!(client.driver().shared.schedule.len(), 0);
}

#[tokio::test]
async fn a_cap_too_short_to_hold_under_is_refused() {
    let lock = client(&Memory::new()).lock("job");
    let lock = lock.with_renew(Renew::AtMost(Duration::ZERO));
    let told = lock.acquire().await.expect_err("refused");
    assert_eq!(told.kind(), ErrorKind::Invalid);
}
