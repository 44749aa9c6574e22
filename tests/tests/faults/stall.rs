//! A holder whose own process keeps it from its lock: stalls, ends of runtimes, plain threads.

use std::{thread, time::Duration};

use leasehold::{Client, ErrorKind, Guard, Loss};
use leasehold_testkit::servers::RedisServer;
use leasehold_tests::holder::{Holder, file_url};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::tempdir;
use tokio::runtime::{Builder, Runtime};

const HOLDER: &str = env!("CARGO_BIN_EXE_holder");
const LONG: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(1);

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// The stores that work across processes, each with what keeps it there.
fn stores() -> [(String, Box<dyn std::any::Any>); 2] {
    let (home, server) = (tempdir().unwrap(), RedisServer::start());
    let (file, redis) = (file_url(home.path()), server.url());
    [(file, Box::new(home)), (redis, Box::new(server))]
}

async fn hold(url: &str, name: &str, ttl: Duration) -> Guard {
    let client = Client::connect(url).await.unwrap();
    client.lock(name).with_ttl(ttl).acquire().await.unwrap()
}

async fn is_free(client: &Client, name: &str) -> bool {
    client.inspect(name).await.unwrap().is_free()
}

/// Waits until the name is free.
async fn freed(url: &str, name: &str) {
    let client = Client::connect(url).await.unwrap();
    let begun = std::time::Instant::now();
    while !is_free(&client, name).await {
        assert!(begun.elapsed() < LONG, "{name} is still held");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The holder's thread computes for three TTLs; the first thing it asks afterwards says lost.
#[test]
fn b10_a_stalled_holder_knows_at_its_first_question() {
    for (url, _store) in stores() {
        let stalled = Builder::new_current_thread().enable_all().build().unwrap();
        let guard = stalled.block_on(hold(&url, "stalled", TTL));
        let other = runtime();
        let url = url.clone();
        let waiter = other.spawn(async move { hold(&url, "stalled", LONG).await });
        stalled.block_on(async {
            thread::sleep(TTL * 3);
            assert!(!guard.is_held());
            assert_eq!(guard.check().unwrap_err().loss(), Some(Loss::Expired));
            assert!(guard.lost_signal().is_cancelled());
        });
        let next = other.block_on(waiter).unwrap();
        assert!(next.fencing_token() > guard.fencing_token());
        let error = stalled.block_on(guard.release()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost);
        next.check().unwrap();
    }
}

/// On a thread of its own, renewal goes on whatever the caller's thread does.
#[test]
fn b10_renewal_on_its_own_thread_outlasts_a_stall() {
    for (url, _store) in stores() {
        let stalled = Builder::new_current_thread().enable_all().build().unwrap();
        stalled.block_on(async {
            let client = Client::builder().own_thread().connect(&url).await.unwrap();
            let lock = client.lock("computing").with_ttl(TTL * 4);
            let guard = lock.acquire().await.unwrap();
            thread::sleep(TTL * 5);
            guard.check().unwrap();
            guard.release().await.unwrap();
        });
    }
}

/// The waiter of a holder that was killed holds after the rest of the TTL, or at once where the
/// store notices.
#[test]
fn b12_a_killed_holder_s_lock_passes_on() {
    for (url, _store) in stores() {
        let mut holder = Holder::start(HOLDER, &[&url, "hold", "killed", "2000"]);
        let first: u64 = holder.expect("held").parse().unwrap();
        let waiter = Holder::start(HOLDER, &[&url, "hold", "killed", "60000"]);
        thread::sleep(Duration::from_millis(300));
        holder.kill();
        let second: u64 = waiter.expect("held").parse().unwrap();
        assert!(second > first);
    }
}

/// A holder that was stopped past its TTL says lost when it goes on, and its late release does not
/// touch the next owner.
#[test]
fn b01_a_stopped_holder_is_told_and_harms_nobody() {
    for (url, _store) in stores() {
        let mut holder = Holder::start(HOLDER, &[&url, "hold", "stopped", "1000"]);
        let first: u64 = holder.expect("held").parse().unwrap();
        let pid = Pid::from_raw(i32::try_from(holder.id()).unwrap());
        kill(pid, Signal::SIGSTOP).unwrap();
        let mut next = Holder::start(HOLDER, &[&url, "hold", "stopped", "60000"]);
        let second: u64 = next.expect("held").parse().unwrap();
        assert!(second > first);
        kill(pid, Signal::SIGCONT).unwrap();
        holder.tell("check");
        assert_eq!(holder.line(), "Lost");
        holder.tell("release");
        assert_eq!(holder.line(), "Lost");
        let third = Holder::start(HOLDER, &[&url, "try", "stopped"]);
        assert_eq!(third.line(), "busy");
        next.tell("check");
        assert_eq!(next.line(), "ok");
    }
}

/// A guard that is dropped on a plain thread releases; the runtime is elsewhere.
#[test]
fn b26_a_guard_dropped_on_a_plain_thread_releases() {
    for (url, _store) in stores() {
        let runtime = runtime();
        let guard = runtime.block_on(hold(&url, "plain thread", LONG));
        thread::spawn(move || drop(guard)).join().unwrap();
        runtime.block_on(freed(&url, "plain thread"));
    }
}

/// A guard that outlives its runtime does not panic or hang, says that it is lost by its deadline,
/// and its lock ends with its TTL.
#[test]
fn b26_a_guard_outlives_its_runtime() {
    for (url, _store) in stores() {
        let first = runtime();
        let guard = first.block_on(hold(&url, "outlived", TTL));
        let client = first.block_on(Client::connect(&url)).unwrap();
        first.shutdown_timeout(Duration::from_secs(10));
        let second = runtime();
        let error = second
            .block_on(client.lock("outlived").try_acquire())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        second.block_on(async {
            tokio::time::timeout(LONG, guard.lost())
                .await
                .expect("told by the deadline");
        });
        assert!(guard.check().is_err());
        drop(guard);
        second.block_on(freed(&url, "outlived"));
    }
}

/// A guard in a static is never dropped: the lock ends with the process or the TTL, and nothing
/// panics. One that a panic unwinds is released.
#[test]
fn b26_a_panic_on_a_plain_thread_releases() {
    for (url, _store) in stores() {
        let runtime = runtime();
        let guard = runtime.block_on(hold(&url, "unwound", LONG));
        let ended = thread::spawn(move || {
            let _guard = guard;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(ended.join().is_err());
        runtime.block_on(freed(&url, "unwound"));
    }
}
