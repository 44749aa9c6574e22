//! Libraries that keep a lock as we do: a string with an expiry.

use std::{process::Command, time::Duration};

use leasehold::{Client, backend::HolderKind};
use tokio::time::{Instant, timeout};

use crate::ground::{Ground, LONG, say};

/// Nobody tells us of their release: we look every 100 ms, and this is far more than that.
const SOON: Duration = Duration::from_secs(20);

/// On one server, or on several that vote.
pub(crate) async fn check(driver: &dyn Fn() -> Command, libraries: &[&str], servers: usize) {
    // Installed once; then a process for each library.
    let installed = driver();
    for library in libraries {
        let mut command = Command::new(installed.get_program());
        command.args(installed.get_args());
        let set = installed.get_envs();
        command.envs(set.filter_map(|(key, value)| Some((key, value?))));
        let mut ground = Ground::new(command, library, servers).await;
        we_keep_them_out(&mut ground).await;
        our_readers_keep_them_out(&mut ground).await;
        they_keep_us_out(&mut ground).await;
        their_end_is_noticed(&mut ground).await;
        we_never_touch_what_they_took_over(&mut ground).await;
        if ground.is_quorum() {
            a_majority_keeps_the_other_out(&mut ground).await;
        }
        say(&format!("{library} on {servers}: passed"));
    }
}

async fn we_keep_them_out(ground: &mut Ground) {
    let guard = ground.client.lock("ours").acquire().await.unwrap();
    let stored = ground.settled("ours").await;
    assert_eq!(ground.they_try("ours", LONG), "busy");
    assert_eq!(ground.stored("ours"), stored);
    guard.check().unwrap();
    ground.we_release(guard).await;
    ground.they_take("ours").await;
    ground.they_release();
}

async fn our_readers_keep_them_out(ground: &mut Ground) {
    let readers = ground.client.rw_lock("read");
    let first = readers.read().await.unwrap();
    let second = readers.read().await.unwrap();
    ground.settled("read").await;
    assert_eq!(ground.they_try("read", LONG), "busy");
    first.release().await.unwrap();
    assert_eq!(ground.they_try("read", LONG), "busy");
    second.check().unwrap();
    ground.we_release(second).await;
    ground.they_take("read").await;
    ground.they_release();
}

async fn they_keep_us_out(ground: &mut Ground) {
    ground.they_take("theirs").await;
    ground.we_are_kept_out("theirs", HolderKind::Foreign).await;
    let remaining = ground.seen("theirs").await.remaining.unwrap();
    assert!(remaining > LONG / 2 && remaining <= LONG, "{remaining:?}");
    ground.they_release();
    assert!(ground.client.inspect("theirs").await.unwrap().is_free());
}

async fn their_end_is_noticed(ground: &mut Ground) {
    ground.they_take("end").await;
    let waiter = ground.we_wait("end").await;
    ground.they_release();
    let guard = timeout(SOON, waiter).await.expect("soon");
    ground.we_release(guard.unwrap()).await;

    let ttl = Duration::from_secs(5);
    let tried = Instant::now();
    assert_eq!(ground.they_try("end", ttl), "held");
    let granted = Instant::now();
    let waiter = ground.we_wait("end").await;
    let end = timeout(granted + ttl + SOON - Instant::now(), waiter).await;
    let guard = end.expect("soon after their TTL").unwrap();
    assert!(tried.elapsed() >= ttl - Duration::from_millis(10));
    // Their release comes too late, whatever they say of it, and does us no harm.
    let stored = ground.settled("end").await;
    ground.they_let_go();
    assert_eq!(ground.stored("end"), stored);
    guard.check().unwrap();
    ground.we_release(guard).await;
}

/// Our key vanishes and they take it: we are told, and neither renew nor release what is theirs.
async fn we_never_touch_what_they_took_over(ground: &mut Ground) {
    // No renewal comes between what happens to one node and to the next.
    let ours = Client::builder().ttl(Duration::from_secs(15));
    let ours = ours.connect(&ground.url()).await.unwrap();
    let guard = ours.lock("taken").acquire().await.unwrap();
    ground.settled("taken").await;
    ground.vanish("taken", usize::MAX);
    ground.they_take("taken").await;
    let stored = ground.stored("taken");
    timeout(LONG, guard.lost()).await.expect("a loss is told");
    assert!(guard.release().await.is_err());
    assert_eq!(ground.stored("taken"), stored);
    let remaining = ground.seen("taken").await.remaining.unwrap();
    assert!(remaining > LONG / 2 && remaining <= LONG, "{remaining:?}");
    ground.they_release();
}

/// One node of three has lost the lock.
async fn a_majority_keeps_the_other_out(ground: &mut Ground) {
    let guard = ground.client.lock("ours").acquire().await.unwrap();
    ground.settled("ours").await;
    ground.vanish("ours", 1);
    assert_eq!(ground.they_try("ours", LONG), "busy");
    guard.check().unwrap();
    ground.we_release(guard).await;

    ground.they_take("theirs").await;
    ground.vanish("theirs", 1);
    let lock = ground.client.lock("theirs");
    assert!(lock.try_acquire().await.unwrap().is_none());
    let kind = ground.seen("theirs").await.kind;
    assert_eq!(kind, HolderKind::Foreign);
    ground.they_release();
}
