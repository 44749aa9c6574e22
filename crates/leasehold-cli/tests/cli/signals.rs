//! INT, TERM, HUP and QUIT in every phase: no command, no lock, no place in the queue left.

use std::{
    fs,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use super::kit::{Marker, Running, Store, assert_in_time, wait_until};

const ALL: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// Far more than the second it may take, less than any time limit.
const AT_ONCE: Duration = Duration::from_secs(4);

/// Tells `running` to end, and waits until it has, at once.
fn stop(running: Running, signal: Signal) -> (i32, String) {
    let begun = Instant::now();
    running.signal(signal);
    let said = running.end();
    assert_in_time(begun, AT_ONCE);
    assert_eq!(said.stdout, "");
    (said.code(), said.stderr)
}

#[test]
fn b29_while_connecting() {
    let store = Store::new();
    store.ask(["status", "j"]);
    let gate = store.close_gate();
    for signal in ALL {
        let running = store.start(["--connect-timeout", "60s", "run", "j", "--", "echo", "ran"]);
        wait_until("it hears signals", || hears(&running, signal));
        let (code, stderr) = stop(running, signal);
        assert_eq!(code, 128 + signal as i32, "{stderr}");
        assert_eq!(stderr, format!("error: stopped by {signal}\n"));
    }
    gate.unlock().unwrap();
    assert!(!store.is_held("j"));
}

/// Whether `running` has a handler for `signal`.
fn hears(running: &Running, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = u64::from_str_radix(mask.unwrap_or("0").trim(), 16).unwrap();
    mask & (1 << (signal as i32 - 1)) != 0
}

#[test]
fn b27_b29_while_waiting() {
    let store = Store::new();
    let lease = store.ask(["acquire", "j", "--ttl", "10m"]).stdout;
    for signal in ALL {
        let running = store.start(["run", "j", "--", "echo", "ran"]);
        wait_until("it waits", || store.waiters("j") == 1);
        let (code, stderr) = stop(running, signal);
        assert_eq!(code, 128 + signal as i32, "{stderr}");
        assert_eq!(stderr, format!("error: stopped by {signal}\n"));
        assert_eq!(store.waiters("j"), 0);
    }
    assert_eq!(store.ask(["release", lease.trim()]).code(), 0);
    assert!(!store.is_held("j"));
}

#[test]
fn b29_while_waiting_in_acquire() {
    let store = Store::new();
    let lease = store.ask(["acquire", "j", "--ttl", "10m"]).stdout;
    let running = store.start(["acquire", "j", "--ttl", "10m"]);
    wait_until("it waits", || store.waiters("j") == 1);
    assert_eq!(stop(running, Signal::SIGINT).0, 130);
    assert_eq!(store.waiters("j"), 0);
    store.ask(["release", lease.trim()]);
    assert!(!store.is_held("j"));
}

#[test]
fn b27_b29_while_the_command_runs() {
    for signal in ALL {
        let store = Store::new();
        let marker = Marker::new();
        // A shell that puts what it starts into the background makes it ignore INT and QUIT.
        let script = format!("sleep {0} | sleep {0}", marker.text());
        let args = ["run", "j", "--ttl", "10m", "--", "sh", "-c", &script];
        let running = store.start(args);
        marker.wait_alive(2);
        let (code, stderr) = stop(running, signal);
        assert_eq!((code, stderr.as_str()), (128 + signal as i32, ""));
        assert_eq!(marker.alive(), 0);
        assert!(!store.is_held("j"));
    }
}

#[test]
fn b27_the_lock_is_released_only_after_the_whole_group_has_ended() {
    let store = Store::new();
    let marker = Marker::new();
    let script = format!("(trap '' TERM; sleep {0}) & sleep {0}; true", marker.text());
    let running = store.start(["run", "j", "--ttl", "10m", "--", "sh", "-c", &script]);
    marker.wait_alive(2);
    running.signal(Signal::SIGTERM);
    marker.wait_alive(1);
    assert!(store.is_held("j"));
    // A command that ends by itself is not hurried: the second Ctrl-C does that.
    wait_until("killed", || {
        running.signal(Signal::SIGINT);
        marker.alive() == 0
    });
    let said = running.end();
    assert_eq!(said.code(), 143);
    assert!(!store.is_held("j"));
}

#[test]
fn b29_a_second_interrupt_kills() {
    let store = Store::new();
    let marker = Marker::new();
    let script = marker.script("trap '' INT TERM");
    let running = store.start(["run", "j", "--ttl", "10m", "--", "sh", "-c", &script]);
    marker.wait_alive(2);
    running.signal(Signal::SIGINT);
    // Two that come together count as one.
    let begun = Instant::now();
    wait_until("the second is heard", || {
        running.signal(Signal::SIGINT);
        marker.alive() == 0
    });
    assert_in_time(begun, AT_ONCE);
    let said = running.end();
    assert_eq!(said.code(), 137);
    assert_eq!(
        said.stderr,
        "warning: interrupted a second time: killing the command\n"
    );
    assert!(!store.is_held("j"));
}

#[test]
fn b29_a_command_that_tidies_up_is_let_to_and_the_lock_released_after() {
    let store = Store::new();
    let marker = Marker::new();
    let script = format!(
        "trap 'echo tidied; exit 9' INT; sleep {} & wait",
        marker.text()
    );
    let running = store.start(["run", "j", "--ttl", "10m", "--", "sh", "-c", &script]);
    marker.wait_alive(1);
    running.signal(Signal::SIGINT);
    // Started in the background by a shell, it ignores INT.
    wait_until("it has tidied up", || running.stdout() == "tidied\n");
    assert_eq!(marker.alive(), 1);
    running.signal(Signal::SIGTERM);
    let said = running.end();
    assert_eq!((said.code(), said.stdout.as_str()), (9, "tidied\n"));
    assert_eq!(marker.alive(), 0);
    assert!(!store.is_held("j"));
}

/// The store's script under a lock whose TTL is no help: only a release frees it in time.
fn start_long(store: &Store) -> Running {
    let script = store.script();
    store.start(["run", "j", "--ttl", "10m", "--", "sh", "-c", &script])
}

#[test]
fn b29_while_releasing() {
    for signal in ALL {
        let store = Store::new();
        let mut running = start_long(&store);
        store.wait_begun();
        // Nobody gets past the gate: the release has to wait.
        let gate = store.close_gate();
        store.let_end();
        std::thread::sleep(Duration::from_millis(300));
        running.signal(signal);
        std::thread::sleep(Duration::from_millis(100));
        assert!(!running.has_ended(), "{signal}");
        gate.unlock().unwrap();
        let said = running.end();
        assert_eq!(said.code(), 128 + signal as i32, "{said:?}");
        assert!(!store.is_held("j"));
    }
}

#[test]
fn b29_a_second_signal_while_releasing_says_what_is_left() {
    let store = Store::new();
    let mut running = start_long(&store);
    store.wait_begun();
    let _gate = store.close_gate();
    store.let_end();
    std::thread::sleep(Duration::from_millis(300));
    wait_until("it gives up", || {
        let over = running.has_ended();
        if !over {
            running.signal(Signal::SIGTERM);
            std::thread::sleep(Duration::from_millis(50));
        }
        over
    });
    let said = running.end();
    assert_eq!(said.code(), 143);
    assert!(
        said.stderr
            .contains("the lock may stay taken for up to 9 m"),
        "{said:?}"
    );
}
