//! Processes that are killed and stopped.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{Cluster, Site};
use crate::holder::Holder;

/// B12: the lock of a killed holder passes to the waiter, whose place was behind another that was
/// killed while it waited.
pub async fn a_holder_and_a_waiter_are_killed<C: Cluster>(site: &Site<C>, program: &str) {
    let (name, url) = ("killed", site.url());
    let ttl = site.ttl.as_millis().to_string();
    let start = || Holder::start(program, &[&url, "hold", name, &ttl]);
    let mut holder = start();
    let first: u64 = holder.expect("held").parse().expect("a number");
    let mut gone = start();
    site.until_entries(name, 2).await;
    let mut waiter = start();
    site.until_entries(name, 3).await;
    gone.kill();
    holder.kill();
    let second: u64 = waiter.expect("held").parse().expect("a number");
    assert!(second > first);
    site.until_entries(name, 1).await;
    waiter.tell("release");
    assert_eq!(waiter.line(), "ok");
    site.comes_free(name).await;
}

/// B01, B22: a holder and the waiter behind it are stopped past their sessions. When they go on,
/// the holder is told, and the waiter is not granted what another holds.
pub async fn a_holder_and_a_waiter_are_stopped<C: Cluster>(site: &Site<C>, program: &str) {
    let (name, url) = ("stopped", site.url());
    let ttl = site.ttl.as_millis().to_string();
    let start = || Holder::start(program, &[&url, "hold", name, &ttl]);
    let mut holder = start();
    let first: u64 = holder.expect("held").parse().expect("a number");
    let mut waiter = start();
    site.until_entries(name, 2).await;
    for stopped in [&holder, &waiter] {
        send(stopped, Signal::SIGSTOP);
    }
    site.until_entries(name, 0).await;
    let guard = site.spared_lock(name).acquire().await.expect("free");
    assert!(guard.fencing_token().get() > first);
    for stopped in [&holder, &waiter] {
        send(stopped, Signal::SIGCONT);
    }
    holder.tell("check");
    assert_eq!(holder.line(), "Lost");
    holder.tell("release");
    assert_eq!(holder.line(), "Lost");
    // The waiter stands behind the guard.
    site.until_entries(name, 2).await;
    assert_eq!(waiter.try_line(), None);
    guard.check().expect("held all the time");
    guard.release().await.expect("ours");
    waiter.expect("held");
    waiter.tell("release");
    assert_eq!(waiter.line(), "ok");
    site.comes_free(name).await;
}

fn send(process: &Holder, signal: Signal) {
    let pid = i32::try_from(process.id()).expect("a process id");
    kill(Pid::from_raw(pid), signal).expect("it runs");
}
