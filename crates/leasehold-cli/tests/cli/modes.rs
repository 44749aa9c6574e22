//! Every way of holding: readers, permits, several locks, elections.

use std::{fs, thread, time::Duration};

use leasehold_testkit::servers::RedisServer;
use nix::sys::signal::Signal;
use serde_json::json;

use super::kit::{Running, Store, masked, wait_until};

/// One store of each kind; the server runs as long as it is there.
fn stores() -> (RedisServer, [Store; 2]) {
    let server = RedisServer::start();
    let redis = Store::at(&server.url());
    (server, [Store::new(), redis])
}

/// A run that lasts until it is told to end, `OPTIONS` coming before the command.
fn long(store: &Store, options: &[&str]) -> Running {
    let script = store.script();
    let command = ["--", "sh", "-c", &script];
    store.start([options, &command].concat())
}

fn holders(store: &Store, name: &str) -> usize {
    store.status(name)["holders"].as_array().unwrap().len()
}

#[test]
fn readers_share_and_a_writer_waits_for_them() {
    let (_server, stores) = stores();
    for store in &stores {
        let readers = [(); 2].map(|()| long(store, &["run", "j", "--shared"]));
        wait_until("both read", || holders(store, "j") == 2);
        let held = store.ask(["status", "j"]);
        let text = masked(&held.stdout, store);
        assert!(text.starts_with("j: read by process N on "), "{text}");
        assert_eq!(store.status("j")["holders"][0]["mode"], "read");
        let busy = store.ask(["run", "j", "--no-wait", "--", "true"]);
        assert_eq!(busy.code(), 124);
        let writer = store.start(["run", "j", "--", "true"]);
        wait_until("the writer waits", || store.waiters("j") == 1);
        let late = store.start(["run", "j", "--shared", "--", "true"]);
        wait_until("a reader waits behind it", || store.waiters("j") == 2);
        let waiters = store.ask(["status", "j"]).stdout;
        let order: Vec<bool> = waiters
            .lines()
            .filter(|line| line.contains(" waits"))
            .map(|line| line.contains("waits to read: "))
            .collect();
        assert_eq!(order, [false, true], "{waiters}");
        store.let_end();
        for run in readers.into_iter().chain([writer, late]) {
            assert_eq!(run.end().code(), 0);
        }
        assert!(!store.is_held("j"));
    }
}

#[test]
fn no_more_run_than_there_are_permits() {
    let (_server, stores) = stores();
    for store in &stores {
        let two = [(); 2].map(|()| long(store, &["run", "pool", "--permits", "2"]));
        wait_until("both run", || holders(store, "pool") == 2);
        let third = store.ask([
            "run",
            "pool",
            "--permits",
            "2",
            "-n",
            "-E",
            "9",
            "--",
            "true",
        ]);
        assert_eq!(third.code(), 9);
        let other = store.ask(["run", "pool", "--permits", "3", "--no-wait", "--", "true"]);
        assert_eq!(other.code(), 125, "another limit: {other:?}");
        assert_eq!(
            store.status("pool")["holders"][0]["mode"],
            json!({ "permits": 1, "of": 2 })
        );
        let list = store.ask(["list"]).stdout;
        assert!(list.contains("pool  1/2 "), "{list}");
        let text = store.ask(["status", "pool"]).stdout;
        assert!(text.starts_with("pool: 1 of 2 permits held by "), "{text}");
        store.let_end();
        for run in two {
            assert_eq!(run.end().code(), 0);
        }
        let said = store.ask(["run", "pool", "--permits", "0", "--", "true"]);
        assert_eq!(said.code(), 125);
    }
}

#[test]
fn b33_several_locks_are_held_together() {
    let (_server, stores) = stores();
    for store in &stores {
        store.ask(["acquire", "b", "--ttl", "10m"]);
        let busy = store.ask(["run", "a", "--also", "b", "--also", "c", "-n", "--", "true"]);
        assert_eq!(busy.code(), 124);
        assert!(busy.stderr.contains("lock \"b\" is held by"), "{busy:?}");
        assert!(!store.is_held("a") && !store.is_held("c"));
        store.ask(["release", "--force", "b", "--yes"]);
        let print = "echo $LEASEHOLD_NAME $LEASEHOLD_FENCING_TOKEN $LEASEHOLD_FENCING_TOKENS";
        let said = store.ask(["run", "b", "--also", "a", "--", "sh", "-c", print]);
        let words: Vec<&str> = said.stdout.split_whitespace().collect();
        assert_eq!((said.code(), words[0]), (0, "b"), "{said:?}");
        assert_eq!((words.len(), words[1]), (4, words[2]));
        assert!(!store.is_held("a") && !store.is_held("b"));
        let nested = ["run", "x", "--also", "y", "--"];
        let inner = [env!("CARGO_BIN_EXE_leasehold"), "run", "y", "--", "true"];
        let said = store.ask([&nested[..], &inner].concat());
        assert_eq!(said.code(), 125, "{said:?}");
    }
}

#[test]
fn b33_losing_one_of_several_ends_the_command_and_frees_the_others() {
    let (_server, stores) = stores();
    for store in &stores {
        let run = long(store, &["run", "a", "--also", "b", "--ttl", "2s"]);
        store.wait_begun();
        let forced = store.ask(["release", "--force", "b", "--yes"]);
        assert_eq!(forced.code(), 0, "{forced:?}");
        assert_eq!(run.end().code(), 123);
        wait_until("the other is free", || !store.is_held("a"));
    }
}

#[test]
fn b24_one_leads_and_the_next_stands_when_it_ends() {
    let (_server, stores) = stores();
    for store in &stores {
        let first = long(
            store,
            &["elect", "e", "--value", "host:1", "--label", "one"],
        );
        store.wait_begun();
        let held = store.status("e");
        assert_eq!(held["holders"][0]["note"], "host:1");
        let term = held["holders"][0]["fencing_token"].as_u64().unwrap();
        let text = store.ask(["status", "e"]).stdout;
        assert!(text.contains("\n  says \"host:1\"\n"), "{text}");
        let busy = store.ask(["elect", "e", "--no-wait", "--", "true"]);
        assert_eq!(busy.code(), 124);
        let print = "echo $LEASEHOLD_FENCING_TOKEN; exit 7";
        let second = store.start(["elect", "e", "--", "sh", "-c", print]);
        wait_until("the second stands", || store.waiters("e") == 1);
        store.let_end();
        assert_eq!(first.end().code(), 0);
        let said = second.end();
        assert_eq!(said.code(), 7, "{said:?}");
        assert!(said.stdout.trim().parse::<u64>().unwrap() > term);
        assert!(!store.is_held("e"));
    }
}

#[test]
fn b30_a_leader_stands_again_until_a_signal_ends_it() {
    let (_server, stores) = stores();
    for store in &stores {
        let log = store.path().join("log");
        let script = format!(
            "echo $LEASEHOLD_FENCING_TOKEN >> {0}; [ $(wc -l < {0}) -lt 3 ] || exec sleep 300",
            log.display()
        );
        let terms = || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            text.lines()
                .map(|line| line.parse::<u64>().unwrap())
                .collect::<Vec<_>>()
        };
        let run = store.start([
            "elect", "e", "--again", "--ttl", "20s", "--", "sh", "-c", &script,
        ]);
        wait_until("it led three times", || terms().len() == 3);
        assert!(terms().is_sorted_by(|a, b| a < b), "{:?}", terms());
        // A lead that is lost is stood for again too.
        store.ask(["release", "--force", "e", "--yes"]);
        wait_until("it led once more", || terms().len() == 4);
        run.signal(Signal::SIGTERM);
        assert_eq!(run.end().code(), 143);
        assert!(!store.is_held("e"));
        // A command that cannot be run is no reason to go on.
        let said = store.ask(["elect", "e", "--again", "--", "no-such-command"]);
        assert_eq!(said.code(), 127);
        let said = store.ask(["elect", "e", "--again", "--no-wait", "--", "true"]);
        assert_eq!(said.code(), 125);
    }
}

#[test]
fn a_signal_ends_a_candidate_that_waits() {
    let (_server, stores) = stores();
    for store in &stores {
        store.ask(["acquire", "e", "--ttl", "10m"]);
        let run = store.start(["elect", "e", "--again", "--", "true"]);
        wait_until("it stands", || store.waiters("e") == 1);
        run.signal(Signal::SIGTERM);
        assert_eq!(run.end().code(), 143);
        assert_eq!(store.waiters("e"), 0);
    }
}

/// Five hosts whose clocks differ by seconds come at different times within the same minute.
#[test]
fn a_minimum_hold_lets_one_of_five_hosts_run() {
    let (_server, stores) = stores();
    for store in &stores {
        let log = store.path().join("log");
        let append = format!("echo x >> {}", log.display());
        let options = [
            "run",
            "cron",
            "--no-wait",
            "--at-least",
            "1h",
            "-E",
            "0",
            "--",
        ];
        let command = ["sh", "-c", &append];
        let runs = (0..5).map(|host| {
            thread::sleep(Duration::from_millis(100 * host));
            store.start([&options[..], &command].concat())
        });
        for run in runs {
            let said = run.end();
            assert_eq!((said.code(), said.stderr.as_str()), (0, ""), "{said:?}");
        }
        assert_eq!(fs::read_to_string(&log).unwrap(), "x\n");
        let text = store.ask(["status", "cron"]).stdout;
        assert!(
            text.contains("released and kept for its minimum hold"),
            "{text}"
        );
    }
}
