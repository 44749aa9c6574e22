//! What the cases over the public API share.

use std::time::Duration;

use leasehold::{Client, Guard};
use tokio::time::{Instant, sleep};

use super::{SOON, Topology};

/// A client with a handle of its own.
pub async fn client(store: &impl Topology) -> Client {
    Client::new(store.connect().await).unwrap()
}

/// Waits until nobody holds `name` and nobody waits for it.
pub async fn nothing_left(client: &Client, name: &str) {
    let begun = Instant::now();
    loop {
        let status = client.inspect(name).await.unwrap();
        if status.is_free() && status.waiters.is_empty() {
            return;
        }
        assert!(begun.elapsed() < SOON, "left: {status:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until so many wait for `name`, where the store knows.
pub async fn waiters(client: &Client, name: &str, count: usize) {
    if client.capabilities().fresh_owners {
        // None is to be seen: a moment in which they have asked, if all goes well.
        sleep(Duration::from_millis(100)).await;
        return;
    }
    let begun = Instant::now();
    while client.inspect(name).await.unwrap().waiters.len() != count {
        assert!(begun.elapsed() < SOON, "not {count} waiters");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Takes a name that is free, or comes free soon.
pub async fn take(client: &Client, name: &str) -> Guard {
    client.lock(name).acquire_timeout(SOON).await.unwrap()
}
