//! Leases that change hands.

use std::time::Duration;

use super::{client, shaky::Shaky};
use crate::{
    Client, ErrorKind,
    backend::{Event, memory::Memory},
};

#[tokio::test(start_paused = true)]
async fn a_late_push_does_not_release_a_lease_that_was_handed_over() {
    let memory = Memory::new();
    let shaky = Shaky::new(&memory);
    let giver = Client::new(shaky.clone()).expect("a runtime is there");
    let guard = giver.lock("job").acquire().await.expect("free");
    let (name, owner, token) = (
        guard.name().clone(),
        guard.owner().clone(),
        guard.fencing_token(),
    );
    let lease = guard.into_lease().await.expect("handed over");
    let taken = client(&memory).adopt(lease).await.expect("still there");
    shaky.tell(Event::Granted {
        name,
        owner,
        token,
        seq: 0,
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(shaky.released(), 0);
    let other = client(&memory).lock("job").try_acquire().await;
    assert!(other.expect("answered").is_none(), "two hold the lock");
    taken.release().await.expect("held");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_adopted_once() {
    let memory = Memory::new();
    let client = client(&memory);
    let guard = client.lock("job").acquire().await.expect("free");
    let text = guard.into_lease().await.expect("handed over").to_string();
    let first = client.adopt(text.parse().expect("a lease")).await;
    let first = first.expect("still there");
    let second = client.adopt(text.parse().expect("a lease")).await;
    assert_eq!(
        second.expect_err("already here").kind(),
        ErrorKind::Conflict
    );
    first.release().await.expect("held");
}
