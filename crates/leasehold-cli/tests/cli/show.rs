//! `status` and `list`, for people and for programs.

use std::process::Stdio;

use serde_json::json;

use super::kit::{Store, masked, wait_until};

#[test]
fn status_answers_by_its_exit_status_too() {
    let store = Store::new();
    let free = store.ask(["status", "j"]);
    assert_eq!(
        (free.code(), free.stdout.as_str(), free.stderr.as_str()),
        (1, "j: free\n", "")
    );
    assert_eq!(
        store.ask(["status", "j", "--json"]).json(),
        json!({ "version": 1, "name": "j", "held": false, "holders": [], "waiters": [] })
    );
    assert_eq!(
        store.ask(["--json", "status", "j"]).stdout,
        store.ask(["status", "j", "--json"]).stdout
    );
    assert_eq!(store.ask(["--json", "run", "j", "--", "true"]).code(), 125);
    store.ask(["acquire", "j", "--ttl", "10m", "--label", "a b"]);
    let running = store.start(["run", "j", "--", "true"]);
    wait_until("one waits", || store.waiters("j") == 1);
    let held = store.ask(["status", "j"]);
    assert_eq!((held.code(), held.stderr.as_str()), (0, ""));
    let text = masked(&held.stdout, &store);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("j: held by process N on "), "{text}");
    assert!(lines[0].contains(" (a b), N m N s left, since N"), "{text}");
    assert!(lines[0].ends_with(", fencing token N"), "{text}");
    assert!(lines[1].starts_with("  owner "), "{text}");
    assert!(lines[2].starts_with("  N. waits: process N on "), "{text}");
    let object = store.status("j");
    let holder = &object["holders"][0];
    for (key, value) in [("kind", "held"), ("mode", "exclusive"), ("label", "a b")] {
        assert_eq!(holder[key], value, "{holder}");
    }
    for key in ["fencing_token", "remaining_ms", "held_for_ms", "pid"] {
        assert!(holder[key].is_u64(), "{key}: {holder}");
    }
    for key in ["expires_at", "acquired_at"] {
        let time = holder[key].as_str().unwrap();
        assert!(
            time.len() == 24 && time.ends_with('Z') && &time[10..11] == "T",
            "{time}"
        );
    }
    for key in ["ticket", "alive_for_ms", "pid"] {
        assert!(object["waiters"][0][key].is_u64(), "{key}: {object}");
    }
    drop(running);
}

#[test]
fn list_shows_what_is_held_under_a_prefix_taken_literally() {
    let store = Store::new();
    assert_eq!(
        store.ask(["list", "--json"]).stdout,
        "{\"locks\":[],\"version\":1}\n"
    );
    for name in ["a/1", "a/2", "a_2", "b%"] {
        store.ask(["acquire", name, "--ttl", "10m"]);
    }
    let all = store.ask(["list"]);
    assert_eq!(all.code(), 0);
    let text = masked(&all.stdout, &store);
    let first: Vec<&str> = text.lines().map(|line| &line[..4]).collect();
    assert_eq!(first, ["NAME", "a/N ", "a/N ", "a_N ", "b%  "]);
    let names = |prefix: &str| {
        let list = store.ask(["list", "--json", prefix]).json();
        let locks = list["locks"].as_array().unwrap().iter();
        locks
            .map(|lock| lock["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("a/"), ["a/1", "a/2"]);
    assert_eq!(names("a_"), ["a_2"]);
    assert_eq!(names("b%"), ["b%"]);
    assert!(names("c").is_empty());
}

#[test]
fn what_others_wrote_cannot_move_the_cursor() {
    let store = Store::new();
    let label = "x\u{1b}[31m\u{202e}y";
    store.ask(["acquire", "j", "--ttl", "10m", "--label", label]);
    for args in [&["status", "j"][..], &["list"][..]] {
        let said = store.ask(args);
        assert!(!said.stdout.contains(['\u{1b}', '\u{202e}']), "{said:?}");
        assert!(said.stdout.contains("x\\u{1b}[31m\\u{202e}y"), "{said:?}");
    }
    assert_eq!(store.status("j")["holders"][0]["label"], label);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let store = Store::new();
    store.ask(["acquire", "j", "--ttl", "10m"]);
    for args in [
        &["list"][..],
        &["status", "j"][..],
        &["completions", "bash"][..],
        &["--help"][..],
    ] {
        let mut command = store.command(args);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
    }
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = store
        .command(["list"])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.starts_with("error: cannot write to stdout: No space left"),
        "{said}"
    );
}
