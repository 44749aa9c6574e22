//! Several commands on one name.

use std::fs;

use serde_json::Value;

use super::kit::{Store, masked, wait_until};

#[test]
fn eight_commands_run_one_after_another_in_the_order_of_the_queue() {
    let store = Store::new();
    let log = store.path().join("log");
    // Whoever runs writes twice; two at once would mix their lines.
    let script = format!(
        "echo $LEASEHOLD_OWNER $LEASEHOLD_FENCING_TOKEN >> {0}; sleep 0.05; \
         echo $LEASEHOLD_OWNER $LEASEHOLD_FENCING_TOKEN >> {0}",
        log.display()
    );
    let first = store.ask(["acquire", "demo", "--ttl", "10m"]).stdout;
    let mut running = Vec::new();
    for _ in 0..8 {
        running.push(store.start(["run", "demo", "--", "sh", "-c", &script]));
    }
    wait_until("all wait", || store.waiters("demo") == 8);
    let status = store.status("demo");
    let owner = |waiter: &Value| waiter["owner"].as_str().unwrap().to_owned();
    let queue: Vec<String> = status["waiters"]
        .as_array()
        .unwrap()
        .iter()
        .map(owner)
        .collect();
    assert_eq!(store.ask(["release", first.trim()]).code(), 0);
    for one in running {
        assert_eq!(one.end().code(), 0);
    }
    let log = fs::read_to_string(log).unwrap();
    let lines: Vec<(&str, u64)> = log
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(owner, number)| (owner, number.parse().unwrap()))
        .collect();
    let (begins, ends): (Vec<_>, Vec<_>) = lines.chunks(2).map(|pair| (pair[0], pair[1])).unzip();
    assert_eq!(begins, ends, "two ran at once");
    let order: Vec<&str> = begins.iter().map(|&(owner, _)| owner).collect();
    assert_eq!(order, queue);
    assert!(begins.is_sorted_by(|a, b| a.1 < b.1), "{begins:?}");
    assert!(!store.is_held("demo"));
}

#[test]
fn who_waits_is_told_for_whom_after_a_second() {
    let store = Store::new();
    let lease = store
        .ask([
            "acquire",
            "j",
            "--ttl",
            "10m",
            "--label",
            "nightly\u{1b}[2J",
        ])
        .stdout;
    let running = store.start(["run", "j", "--wait", "4s", "--", "true"]);
    let said = running.end();
    assert_eq!(said.code(), 124);
    let host = store.status("j")["holders"][0]["host"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        masked(&said.stderr, &store).replace(&host, "HOST"),
        "note: waiting for \"j\": held by process N on HOST (nightly\\u{Nb}[NJ), N m N s left\n\
         error: lock \"j\" is held by process N on HOST (nightly\\u{Nb}[NJ), N m N s left\n\n\
         hint: see who waits with leasehold status, or wait longer with --wait DUR\n"
    );
    let quiet = store.ask(["-q", "run", "j", "--no-wait", "--", "true"]);
    assert_eq!(quiet.code(), 124);
    assert!(
        quiet
            .stderr
            .starts_with("error: lock \"j\" is held by process "),
        "{quiet:?}"
    );
    assert_eq!(
        store.ask(["run", "j", "--wait", "0s", "--", "true"]).code(),
        124
    );
    assert_eq!(
        store
            .ask(["run", "free", "--wait", "0s", "--", "true"])
            .code(),
        0
    );
    let own = store.ask(["run", "j", "--no-wait", "-E", "75", "--", "true"]);
    assert_eq!(own.code(), 75);
    assert!(own.stderr.starts_with("error: "), "{own:?}");
    assert_eq!(store.ask(["release", lease.trim()]).code(), 0);
}

#[test]
fn a_holder_that_is_killed_is_followed_at_once() {
    let store = Store::new();
    let holder = store.start(["run", "j", "--ttl", "10m", "--", "sleep", "300"]);
    store.wait_held("j");
    let next = store.start(["run", "j", "--wait", "60s", "--", "echo", "next"]);
    wait_until("it waits", || store.waiters("j") == 1);
    holder.signal(nix::sys::signal::Signal::SIGKILL);
    let said = next.end();
    assert_eq!((said.code(), said.stdout.as_str()), (0, "next\n"));
}
