//! Libraries that keep a lock as we do: a string with an expiry.

use std::{process::Command, time::Duration};

use leasehold::{Client, backend::HolderKind};
use tokio::time::{Instant, timeout};

use crate::ground::{Ground, LONG, say};

/// Nobody tells us of their release: we look every 100 ms, and this is ten times that.
const SOON: Duration = Duration::from_secs(1);

pub(crate) async fn check(driver: &dyn Fn() -> Command, libraries: &[&str]) {
    // Installed once; then a process for each library.
    let installed = driver();
    for library in libraries {
        let mut command = Command::new(installed.get_program());
        command.args(installed.get_args());
        let set = installed.get_envs();
        command.envs(set.filter_map(|(key, value)| Some((key, value?))));
        let mut ground = Ground::new(command, library).await;
        we_keep_them_out(&mut ground).await;
        our_readers_keep_them_out(&mut ground).await;
        they_keep_us_out(&mut ground).await;
        their_end_is_noticed(&mut ground).await;
        we_never_touch_what_they_took_over(&mut ground).await;
        say(&format!("{library}: passed"));
    }
}

async fn we_keep_them_out(ground: &mut Ground) {
    let guard = ground.client.lock("ours").acquire().await.unwrap();
    let stored = ground.stored("ours");
    assert_eq!(ground.they_try("ours", LONG), "busy");
    assert_eq!(ground.stored("ours"), stored);
    guard.check().unwrap();
    guard.release().await.unwrap();
    ground.they_take("ours");
    ground.they_release();
}

async fn our_readers_keep_them_out(ground: &mut Ground) {
    let readers = ground.client.rw_lock("read");
    let first = readers.read().await.unwrap();
    let second = readers.read().await.unwrap();
    assert_eq!(ground.they_try("read", LONG), "busy");
    first.release().await.unwrap();
    assert_eq!(ground.they_try("read", LONG), "busy");
    second.check().unwrap();
    second.release().await.unwrap();
    ground.they_take("read");
    ground.they_release();
}

async fn they_keep_us_out(ground: &mut Ground) {
    ground.they_take("theirs");
    ground.we_are_kept_out("theirs", HolderKind::Foreign).await;
    let remaining = ground.seen("theirs").await.remaining.unwrap();
    assert!(remaining > LONG / 2 && remaining <= LONG, "{remaining:?}");
    ground.they_release();
    assert!(ground.client.inspect("theirs").await.unwrap().is_free());
}

async fn their_end_is_noticed(ground: &mut Ground) {
    ground.they_take("end");
    let waiter = ground.we_wait("end").await;
    ground.they_release();
    let guard = timeout(SOON, waiter).await.expect("within a second");
    guard.unwrap().release().await.unwrap();

    let ttl = Duration::from_secs(2);
    let tried = Instant::now();
    assert_eq!(ground.they_try("end", ttl), "held");
    let granted = Instant::now();
    let waiter = ground.we_wait("end").await;
    let end = timeout(granted + ttl + SOON - Instant::now(), waiter).await;
    let guard = end.expect("within a second of their TTL").unwrap();
    assert!(tried.elapsed() >= ttl - Duration::from_millis(10));
    // Their release comes too late, whatever they say of it, and does us no harm.
    let stored = ground.stored("end");
    ground.they_let_go();
    assert_eq!(ground.stored("end"), stored);
    guard.check().unwrap();
    guard.release().await.unwrap();
}

/// Our key vanishes and they take it: we are told, and neither renew nor release what is theirs.
async fn we_never_touch_what_they_took_over(ground: &mut Ground) {
    let ours = Client::builder().ttl(Duration::from_millis(1500));
    let ours = ours.connect(&ground.server.url()).await.unwrap();
    let guard = ours.lock("taken").acquire().await.unwrap();
    ground.server.cli(&["DEL", "lock:taken"]);
    ground.they_take("taken");
    let stored = ground.stored("taken");
    timeout(LONG, guard.lost()).await.expect("a loss is told");
    assert!(guard.release().await.is_err());
    assert_eq!(ground.stored("taken"), stored);
    let remaining = ground.seen("taken").await.remaining.unwrap();
    assert!(remaining > LONG / 2 && remaining <= LONG, "{remaining:?}");
    ground.they_release();
}
