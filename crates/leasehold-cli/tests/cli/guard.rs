//! A wrapper that is killed or stopped: its command is gone before the lease could pass on.

use std::{
    fs,
    time::{Duration, Instant},
};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::kit::{Marker, Running, Store, assert_in_time, wait_until};

/// Starts a run of two processes under `name`, and waits until they are there.
fn start(store: &Store, marker: &Marker, ttl: &str, before: &str) -> Running {
    let script = marker.script(before);
    let running = store.start(["run", "j", "--ttl", ttl, "--", "sh", "-c", &script]);
    marker.wait_alive(2);
    running
}

/// Waits until the lock is free, and fails if that is so while the command is alive.
fn never_free_while_alive(store: &Store, marker: &Marker) {
    wait_until("the lock is free", || {
        let held = store.is_held("j");
        // Asked after: what is alive now was alive when the lock was free.
        assert!(
            held || marker.alive() == 0,
            "free, and {} alive",
            marker.alive()
        );
        !held
    });
}

#[test]
fn b27_a_killed_wrapper_s_command_is_gone_before_its_lock_is_free() {
    let store = Store::new();
    let marker = Marker::new();
    let running = start(&store, &marker, "30s", "");
    running.signal(Signal::SIGKILL);
    never_free_while_alive(&store, &marker);
    let said = running.end();
    assert_eq!(
        said.stderr,
        "warning: guard process: the wrapper is gone, ending the command\n"
    );
}

#[test]
fn b27_a_killed_wrapper_s_command_that_ignores_term_is_killed() {
    let store = Store::new();
    let marker = Marker::new();
    let running = start(&store, &marker, "3s", "trap '' TERM");
    let begun = Instant::now();
    running.signal(Signal::SIGKILL);
    never_free_while_alive(&store, &marker);
    assert_in_time(begun, Duration::from_secs(3));
}

#[test]
fn b27_a_stopped_wrapper_s_command_is_gone_before_its_lease_ends() {
    for before in ["", "trap '' TERM"] {
        let store = Store::new();
        let marker = Marker::new();
        let running = start(&store, &marker, "2s", before);
        running.signal(Signal::SIGSTOP);
        never_free_while_alive(&store, &marker);
        running.signal(Signal::SIGCONT);
        let said = running.end();
        assert_eq!(said.code(), 123, "{said:?}");
        assert!(said.stderr.contains("guard process"), "{said:?}");
        assert!(said.stderr.contains("lock \"j\" lost"), "{said:?}");
    }
}

#[test]
fn the_next_waiter_holds_only_after_the_killed_wrapper_s_command_is_gone() {
    let store = Store::new();
    let marker = Marker::new();
    let running = start(&store, &marker, "3s", "trap '' TERM");
    let next = store.start(["run", "j", "--", "sleep", "1"]);
    wait_until("the next waits", || store.waiters("j") == 1);
    running.signal(Signal::SIGKILL);
    let pid = next.pid().as_raw();
    wait_until("the next holds", || {
        let holds = store.status("j")["holders"][0]["pid"] == pid;
        assert!(!holds || marker.alive() == 0, "{} alive", marker.alive());
        holds
    });
    assert_eq!(next.end().code(), 0);
}

#[test]
fn a_guard_process_that_is_killed_is_replaced() {
    let store = Store::new();
    let marker = Marker::new();
    let running = start(&store, &marker, "3s", "");
    let first = guard_of(&marker, None);
    kill(first, Signal::SIGKILL).unwrap();
    guard_of(&marker, Some(first));
    running.signal(Signal::SIGKILL);
    never_free_while_alive(&store, &marker);
}

#[test]
fn a_guard_process_does_not_heed_what_is_meant_for_a_whole_service() {
    let store = Store::new();
    let marker = Marker::new();
    let running = start(&store, &marker, "30s", "trap '' TERM");
    let guard = guard_of(&marker, None);
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ] {
        kill(guard, signal).unwrap();
    }
    running.signal(Signal::SIGKILL);
    never_free_while_alive(&store, &marker);
}

#[test]
fn b27_what_a_nested_run_started_is_gone_with_the_lock_around_it() {
    let store = Store::new();
    let marker = Marker::new();
    let script = marker.script("trap '' TERM");
    let inner = env!("CARGO_BIN_EXE_leasehold");
    let mut args = vec!["run", "j", "--ttl", "3s", "--", inner];
    args.extend(["run", "k", "--ttl", "10m", "--", "sh", "-c", &script]);
    let running = store.start(args);
    marker.wait_alive(2);
    running.signal(Signal::SIGSTOP);
    never_free_while_alive(&store, &marker);
    wait_until("the inner lock is free", || !store.is_held("k"));
    running.signal(Signal::SIGCONT);
    assert_eq!(running.end().code(), 123);
}

#[test]
fn on_lost_warn_lets_the_command_live_and_keeps_the_lock_meanwhile() {
    let store = Store::new();
    let marker = Marker::new();
    let args = [
        "run",
        "j",
        "--on-lost",
        "warn",
        "--",
        "sleep",
        marker.text(),
    ];
    let running = store.start(args);
    marker.wait_alive(1);
    let leader = processes(&format!("sleep\0{}\0", marker.text()))[0];
    running.signal(Signal::SIGKILL);
    drop(running);
    assert!(store.is_held("j"));
    assert_eq!(marker.alive(), 1);
    kill(leader, Signal::SIGKILL).unwrap();
    never_free_while_alive(&store, &marker);
}

/// The guard process of the run that `marker` runs under, other than `other`.
fn guard_of(marker: &Marker, other: Option<Pid>) -> Pid {
    let sleeper = processes(&format!("sleep\0{}\0", marker.text()))[0];
    let group = nix::unistd::getpgid(Some(sleeper)).unwrap();
    let mut found = None;
    wait_until("a guard process", || {
        let guards = processes(&format!("leasehold\0__guard\0{group}\0"));
        found = guards.into_iter().find(|&pid| Some(pid) != other);
        found.is_some()
    });
    found.unwrap()
}

/// The processes whose command lines begin with `words`.
fn processes(words: &str) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let matching = processes.filter(|entry| {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        command.starts_with(words.as_bytes())
    });
    matching
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .map(Pid::from_raw)
        .collect()
}
