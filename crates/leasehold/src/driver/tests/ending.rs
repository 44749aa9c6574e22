//! Shutdown, and what is told at the end.

use std::time::Duration;

use super::{
    client,
    shaky::{Call, Fate, Shaky},
};
use crate::{Client, ErrorKind, RunError, backend::memory::Memory};

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
