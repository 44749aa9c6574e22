//! Redisson keeps a lock as a hash, which is no lock of ours.

use std::{process::Command, time::Duration};

use leasehold::backend::HolderKind;
use tokio::time::timeout;

use crate::ground::{Ground, LONG, say};

pub(crate) async fn check(driver: &dyn Fn() -> Command) {
    let mut ground = Ground::new(driver(), "redisson", 1).await;
    they_are_refused(&mut ground).await;
    we_are_refused(&mut ground).await;
}

async fn they_are_refused(ground: &mut Ground) {
    let guard = ground.client.lock("ours").acquire().await.unwrap();
    let stored = ground.stored("ours");
    let said = ground.they_try("ours", LONG);
    assert!(said.starts_with("error WRONGTYPE"), "{said}");
    assert_eq!(ground.stored("ours"), stored);
    guard.check().unwrap();
    guard.release().await.unwrap();

    let guard = ground.client.rw_lock("ours").read().await.unwrap();
    let said = ground.they_try("ours", LONG);
    assert!(said.starts_with("error WRONGTYPE"), "{said}");
    guard.check().unwrap();
    guard.release().await.unwrap();
    ground.they_take("ours").await;
    ground.they_release();
}

async fn we_are_refused(ground: &mut Ground) {
    ground.they_take("theirs").await;
    let error = ground.we_are_kept_out("theirs", HolderKind::WrongType);
    let error = error.await.to_string();
    say(&format!("with redisson in the way we say: {error}"));
    assert!(error.contains("something that is no lock"), "{error}");
    let waiter = ground.we_wait("theirs").await;
    let stored = ground.stored("theirs");
    ground.they_release();
    assert!(stored.contains(':'), "{stored}");
    let guard = timeout(Duration::from_secs(20), waiter).await;
    let guard = guard.expect("soon").unwrap();
    guard.release().await.unwrap();
}
