//! The lock is lost, or about to be, while the command runs.

use std::time::{Duration, Instant};

use super::kit::{Marker, Store, assert_in_time, masked, wait_until};

#[test]
fn b27_a_lock_that_is_released_by_force_ends_the_whole_group() {
    let store = Store::new();
    let marker = Marker::new();
    let script = marker.script("");
    let running = store.start(["run", "j", "--ttl", "10m", "--", "sh", "-c", &script]);
    marker.wait_alive(2);
    let begun = Instant::now();
    let forced = store.ask(["release", "--force", "j", "--yes"]);
    assert_eq!(forced.code(), 0);
    assert_eq!(
        masked(&forced.stderr, &store).replace(&host(&store), "HOST"),
        "note: lock \"j\": ended process N on HOST (sh), N m N s left\n"
    );
    let said = running.end();
    assert_in_time(begun, Duration::from_secs(10));
    assert_eq!(said.code(), 123);
    assert_eq!(
        said.stderr,
        "warning: lock \"j\" lost: it was released by force\nwarning: ending the command\n"
    );
    assert_eq!(marker.alive(), 0);
}

#[test]
fn b27_a_command_that_ignores_term_is_killed_after_the_grace() {
    let store = Store::new();
    let marker = Marker::new();
    let script = marker.script("trap '' TERM");
    let args = [
        "run", "j", "--ttl", "10m", "--grace", "500ms", "--", "sh", "-c", &script,
    ];
    let running = store.start(args);
    marker.wait_alive(2);
    store.ask(["release", "--force", "j", "--yes"]);
    let said = running.end();
    assert_eq!(said.code(), 123);
    // On a machine that is busy enough, the guard process is first.
    assert!(
        said.stderr.contains("the command did not end in time"),
        "{said:?}"
    );
    assert_eq!(marker.alive(), 0);
}

#[test]
fn b27_with_the_store_away_the_command_ends_before_the_lease() {
    let store = Store::new();
    let marker = Marker::new();
    let script = marker.script("");
    let running = store.start(["run", "j", "--ttl", "2s", "--", "sh", "-c", &script]);
    marker.wait_alive(2);
    let gate = store.close_gate();
    // Nothing that was renewed before can last longer than this.
    let begun = Instant::now();
    marker.wait_alive(0);
    assert_in_time(begun, Duration::from_secs(2));
    drop(gate);
    let said = running.end();
    assert_eq!(said.code(), 123, "{said:?}");
    let lines: Vec<&str> = said.stderr.lines().collect();
    assert!(
        lines[0].starts_with("warning: lock \"j\": renewal failing since "),
        "{said:?}"
    );
    assert!(lines[0].ends_with(" left"), "{said:?}");
    assert!(
        lines[1].ends_with("ms more and is not renewed: ending the command"),
        "{said:?}"
    );
}

#[test]
fn a_short_outage_is_told_and_survived() {
    let store = Store::new();
    let running = store.start([
        "run",
        "j",
        "--ttl",
        "15s",
        "--",
        "sh",
        "-c",
        &store.script(),
    ]);
    store.wait_begun();
    let gate = store.close_gate();
    wait_until("failing is told", || {
        running.stderr().contains("renewal failing since")
    });
    gate.unlock().unwrap();
    wait_until("recovering is told", || {
        running.stderr().contains("lock \"j\": renewal recovered")
    });
    store.let_end();
    let said = running.end();
    assert_eq!(said.code(), 0, "{said:?}");
    assert_eq!(said.stderr.lines().count(), 2, "{said:?}");
}

#[test]
fn on_lost_warn_only_tells() {
    let store = Store::new();
    let script = format!("{}; echo finished", store.script());
    let args = [
        "run",
        "j",
        "--ttl",
        "10m",
        "--on-lost",
        "warn",
        "--",
        "sh",
        "-c",
        &script,
    ];
    let running = store.start(args);
    store.wait_begun();
    store.ask(["release", "--force", "j", "--yes"]);
    store.ask(["run", "j", "--", "true"]);
    store.let_end();
    let said = running.end();
    assert_eq!((said.code(), said.stdout.as_str()), (123, "finished\n"));
    assert_eq!(
        said.stderr,
        "warning: lock \"j\" lost: it was released by force\n\
         warning: the command goes on without the lock (--on-lost warn)\n"
    );
}

#[test]
fn b30_a_store_that_cannot_serve_starts_no_command() {
    let store = Store::new();
    store.ask(["status", "j"]);
    let gate = store.close_gate();
    let said = store.ask([
        "--connect-timeout",
        "300ms",
        "run",
        "j",
        "--",
        "echo",
        "ran",
    ]);
    assert_eq!((said.code(), said.stdout.as_str()), (122, ""));
    assert!(said.stderr.starts_with("error: "), "{said:?}");
    gate.unlock().unwrap();
    let unreachable = "redis://127.0.0.1:1";
    let said = store.ask(["--url", unreachable, "run", "j", "--", "echo", "ran"]);
    assert_eq!((said.code(), said.stdout.as_str()), (122, ""));
    assert!(
        said.stderr.starts_with("error: redis://127.0.0.1:1: "),
        "{said:?}"
    );
}

fn host(store: &Store) -> String {
    let lease = store.ask(["acquire", "host", "--ttl", "1m"]);
    assert_eq!(lease.code(), 0);
    store.status("host")["holders"][0]["host"]
        .as_str()
        .unwrap()
        .into()
}
