//! Limits of any size, and leases as short as they can be.

use std::time::Duration;

use super::{
    client,
    shaky::{Call, Fate, Shaky},
};
use crate::{Client, Drift, ErrorKind, Loss, Renew, backend::memory::Memory};

#[tokio::test(start_paused = true)]
async fn limits_of_any_size_are_taken_or_refused_without_a_panic() {
    let memory = Memory::new();
    let builder = Client::builder().call_timeout(Duration::MAX);
    let client = builder.build(memory.clone()).expect("a runtime is there");
    let lock = client.lock("job").with_renew(Renew::AtMost(Duration::MAX));
    let guard = lock.acquire_timeout(Duration::ZERO).await.expect("free");
    let told = lock.acquire_timeout(Duration::ZERO).await;
    assert_eq!(told.expect_err("held").kind(), ErrorKind::Timeout);
    guard.remaining_below(Duration::MAX).await;
    let told = guard.extend(Duration::MAX).await;
    assert_eq!(told.expect_err("too long").kind(), ErrorKind::Invalid);
    let ended = async {
        guard.remaining_below(Duration::ZERO).await;
        guard.check().expect_err("only at the end")
    };
    let losing = async {
        tokio::time::sleep(Duration::from_secs(90)).await;
        memory.lose("job");
    };
    let (error, ()) = tokio::join!(ended, losing);
    assert_eq!(error.loss(), Some(Loss::Missing));
    drop(guard);
    let kept = lock.acquire_timeout(Duration::MAX).await.expect("free");
    client.shutdown(Duration::MAX).await.expect("confirmed");
    kept.check().expect_err("shut down");
}

#[tokio::test(start_paused = true)]
async fn a_drift_that_leaves_nothing_of_a_lease_is_told() {
    let drift = Drift::DEFAULT.with_forward_step(Duration::MAX);
    let builder = Client::builder().drift(drift);
    let client = builder.build(Memory::new()).expect("a runtime is there");
    let told = client.lock("job").try_acquire().await;
    assert_eq!(
        told.expect_err("no validity").kind(),
        ErrorKind::Unavailable
    );
    assert!(client.inspect("job").await.expect("answered").is_free());
}

#[tokio::test(start_paused = true)]
async fn b07_the_shortest_lease_on_a_slow_line_is_held_or_given_back() {
    let shaky = Shaky::new(&Memory::new());
    let slow = Client::new(shaky.clone()).expect("a runtime is there");
    let lock = slow.lock("job").with_ttl(Duration::from_millis(100));
    for millis in [0, 20, 50, 80, 86, 95, 99, 150] {
        shaky.plan(Call::Acquire, Fate::Late(Duration::from_millis(millis)));
        match lock.try_acquire().await {
            Ok(guard) => {
                let guard = guard.expect("free");
                assert!(guard.remaining() >= Duration::from_millis(10));
                assert!(guard.remaining() <= Duration::from_millis(97 - millis));
                guard.release().await.expect("held");
            }
            Err(error) => {
                assert!(millis > 80, "{millis}");
                assert_eq!(error.kind(), ErrorKind::Unavailable);
            }
        }
        let other = client(&shaky.memory).lock("job").try_acquire().await;
        drop(other.expect("answered").expect("given back"));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_loss_is_told_by_the_deadline_and_not_before() {
    let memory = Memory::new();
    let client = client(&memory);
    let lock = client.lock("job").with_renew(Renew::Never);
    let guard = lock.acquire().await.expect("free");
    let (signal, deadline) = (guard.lost_signal(), guard.deadline());
    let listens = tokio::spawn({
        let clock = client.clock();
        async move {
            signal.cancelled().await;
            clock.now()
        }
    });
    assert_eq!(guard.lost().await, Loss::Expired);
    let late = Duration::from_millis(2);
    let told = client.clock().now();
    assert!(told >= deadline && told - deadline <= late);
    let told = listens.await.expect("no panic");
    assert!(told >= deadline && told - deadline <= late);
}
