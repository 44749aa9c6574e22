#![allow(clippy::disallowed_methods)] // real time, for these calls block real threads

use std::time::Duration;

use super::Client;
use crate::{ErrorKind, RunError, backend::memory::Memory};

#[test]
fn a_caller_without_a_runtime_has_everything() {
    let client = Client::new(Memory::new()).expect("a thread");
    let guard = client.lock("job").acquire().expect("free");
    assert!(
        client
            .lock("job")
            .try_acquire()
            .expect("answered")
            .is_none()
    );
    let error = client
        .lock("job")
        .acquire_timeout(Duration::from_millis(20))
        .expect_err("held");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    guard.extend(Duration::from_secs(60)).expect("held");
    assert_eq!(guard.lost_within(Duration::from_millis(5)), None);
    guard.release().expect("held");
    let held = client.lock("job").run(|guard| guard.is_held());
    assert!(held.expect("in time"));
    let reader = client
        .rw_lock("rw")
        .write()
        .expect("free")
        .downgrade()
        .expect("held");
    assert!(client.rw_lock("rw").try_read().expect("answered").is_some());
    drop(reader);
    let many = client.lock_all(["a", "b"]).acquire().expect("free");
    many.release().expect("held");
    let leads = client.election("e").campaign("me").expect("free");
    assert_eq!(
        client
            .election("e")
            .leader()
            .expect("answered")
            .expect("led")
            .value,
        "me"
    );
    leads.resign().expect("led");
    client.shutdown(Duration::from_secs(5)).expect("confirmed");
}

#[test]
fn b10_renewal_goes_on_while_the_caller_computes() {
    let client = Client::new(Memory::new()).expect("a thread");
    let lock = client.lock("job").with_ttl(Duration::from_secs(5));
    let guard = lock.acquire().expect("free");
    let first = guard.deadline();
    let began = std::time::Instant::now();
    while guard.deadline() == first && began.elapsed() < Duration::from_secs(60) {
        (0..100_000).for_each(|_| std::hint::spin_loop());
    }
    guard.check().expect("renewed meanwhile");
    assert!(guard.deadline() > first);
}

#[test]
fn inside_an_async_program_it_blocks_but_does_not_lock_up() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let client = Client::new(Memory::new()).expect("a thread");
        let guard = client.lock("job").acquire().expect("free");
        guard.release().expect("held");
    });
}

#[test]
fn work_that_ended_too_late_is_told_so() {
    let memory = Memory::new();
    let client = Client::new(memory.clone()).expect("a thread");
    let late = client.lock("job").run(|_| {
        memory.advance(Duration::from_secs(60));
        7
    });
    assert!(matches!(late, Err(RunError::LostAfter(7, _))));
}
