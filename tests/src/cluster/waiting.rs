//! Waiters whose session ends, whose answers are lost, who give up.

use std::time::Duration;

use leasehold::{ErrorKind, Guard};
use leasehold_testkit::proxy::Proxy;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::{Cluster, LONG, Site};

/// The client behind the proxies waits; returns when the store has it queued.
async fn waiter<C: Cluster>(site: &Site<C>, name: &'static str) -> JoinHandle<Guard> {
    let before = site.cluster.entries(name);
    let lock = site.lock(name);
    let waiter = tokio::spawn(async move {
        let guard = lock.acquire_timeout(LONG).await;
        guard.expect("within a minute")
    });
    site.until_entries(name, before + 1).await;
    waiter
}

/// B22: a waiter's session ends while nothing of its client arrives. Whoever was granted meanwhile
/// stays the only one, and the waiter begins anew.
pub async fn a_session_ends_while_it_waits<C: Cluster>(site: &Site<C>) {
    let name = "b22";
    let first = site.spared_lock(name).acquire().await.expect("free");
    let waiter = waiter(site, name).await;
    site.ways(Proxy::black_hole);
    // The store gives the waiter up by itself.
    site.until_entries(name, 1).await;
    first.release().await.expect("ours");
    let second = site.spared_lock(name).acquire_timeout(LONG).await;
    let second = second.expect("nobody else waits");
    site.ways(Proxy::recover);
    site.ways(Proxy::cut);
    // It is there again, behind the holder.
    site.until_entries(name, 2).await;
    second.check().expect("held all the time");
    assert!(!waiter.is_finished(), "granted while another holds");
    second.release().await.expect("ours");
    let third = waiter.await.expect("no panic");
    third.check().expect("its own entry is there");
    assert_eq!(site.cluster.entries(name), 1);
    third.release().await.expect("ours");
    site.comes_free(name).await;
}

/// B22: the predecessor leaves at the moment that a waiter gives up: no grant, nothing left.
pub async fn a_wait_is_given_up_as_the_holder_leaves<C: Cluster>(site: &Site<C>) {
    let name = "b22-given-up";
    for late in [0, 1, 2, 4, 8] {
        let guard = site.spared_lock(name).acquire().await.expect("free");
        let waiter = waiter(site, name).await;
        let release = tokio::spawn(guard.release());
        sleep(Duration::from_millis(late)).await;
        waiter.abort();
        // With a guard in it, if it came first.
        drop(waiter);
        release.await.expect("no panic").expect("ours");
        site.comes_free(name).await;
    }
}

/// B23, B05: the answer to the entry's creation is lost. The attempt leaves nothing, or is the one
/// that was made.
pub async fn the_answer_to_an_acquire_is_lost<C: Cluster>(site: &Site<C>) {
    let name = "b23";
    let first = site.spared_lock(name).acquire().await.expect("free");
    site.ways(Proxy::swallow_replies);
    let tried = site.lock(name).try_acquire().await;
    site.ways(Proxy::recover);
    let error = tried.expect_err("no answer came");
    let kind = error.kind();
    assert!(
        matches!(kind, ErrorKind::Ambiguous | ErrorKind::Unavailable),
        "{error:?}"
    );
    site.until_entries(name, 1).await;
    first.release().await.expect("ours");
    site.comes_free(name).await;

    // Free, and for as long as the answers are lost, asked for by one that goes on waiting.
    site.ways(Proxy::swallow_replies);
    let lock = site.lock(name);
    let waiting = tokio::spawn(async move { lock.acquire_timeout(LONG).await });
    sleep(Duration::from_secs(1)).await;
    site.ways(Proxy::recover);
    let guard = waiting.await.expect("no panic").expect("answers again");
    site.until_entries(name, 1).await;
    guard.release().await.expect("ours");
    site.comes_free(name).await;
}

/// B23: the connection is gone just when a waiter that gave up takes its entry back.
pub async fn a_waiter_that_gives_up_is_cut_off<C: Cluster>(site: &Site<C>) {
    let name = "b23-cut";
    let first = site.spared_lock(name).acquire().await.expect("free");
    let waiter = waiter(site, name).await;
    site.ways(Proxy::refuse);
    waiter.abort();
    drop(waiter);
    sleep(site.ttl / 8).await;
    site.ways(Proxy::recover);
    let begun = Instant::now();
    site.until_entries(name, 1).await;
    eprintln!("the entry was gone after {:?}", begun.elapsed());
    first.release().await.expect("ours");
    site.comes_free(name).await;
}
