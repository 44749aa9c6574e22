//! `acquire`, `renew` and `release`: locks for scripts that cannot be wrapped.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use super::kit::{Marker, Store, masked};

#[test]
fn a_lease_outlives_its_command_and_is_renewed_and_released() {
    let store = Store::new();
    let acquired = store.ask(["acquire", "job/1", "--ttl", "1m", "--label", "by hand"]);
    assert_eq!((acquired.code(), acquired.stderr.as_str()), (0, ""));
    let lease = acquired.stdout.trim();
    assert_eq!(acquired.stdout, format!("{lease}\n"));
    let held = &store.status("job/1")["holders"][0];
    assert_eq!(held["label"], "by hand");
    let renewed = store.ask(["renew", lease, "--ttl", "10m"]);
    assert_eq!(renewed.code(), 0);
    let after = &store.status("job/1")["holders"][0];
    assert_eq!(after["fencing_token"], held["fencing_token"]);
    assert!(after["remaining_ms"].as_u64().unwrap() > 500_000, "{after}");
    let released = store.ask(["release", renewed.stdout.trim()]);
    assert_eq!(
        (
            released.code(),
            released.stdout.as_str(),
            released.stderr.as_str()
        ),
        (0, "", "")
    );
    assert!(!store.is_held("job/1"));
}

#[test]
fn b01_a_lease_that_is_over_is_lost_and_harms_nobody() {
    let store = Store::new();
    let old = store.ask(["acquire", "j", "--ttl", "200ms"]).stdout;
    let new = store
        .ask(["acquire", "j", "--ttl", "10m", "--wait", "60s"])
        .stdout;
    let before = store.status("j")["holders"][0]["owner"].clone();
    for command in ["release", "renew"] {
        let said = store.ask([command, old.trim()]);
        assert_eq!((said.code(), said.stdout.as_str()), (1, ""));
        assert!(
            said.stderr.starts_with("error: lock \"j\": lost"),
            "{said:?}"
        );
    }
    assert_eq!(store.status("j")["holders"][0]["owner"], before);
    assert_eq!(
        store.ask(["run", "j", "--no-wait", "--", "true"]).code(),
        124
    );
    assert_eq!(store.ask(["release", new.trim()]).code(), 0);
    assert_eq!(store.ask(["release", new.trim()]).code(), 1);
}

#[test]
fn leases_are_read_from_stdin_and_printed_as_json() {
    let store = Store::new();
    let acquired = store.ask(["acquire", "j", "--ttl", "10m", "--json"]).json();
    assert_eq!(acquired["version"], 1);
    assert_eq!(acquired["name"], "j");
    assert_eq!(acquired["ttl_ms"], 600_000);
    assert!(acquired["expires_at"].as_str().unwrap().ends_with('Z'));
    let mut release = store.command(["release", "-", "--json"]);
    let mut child = release
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lease = acquired["lease"].as_str().unwrap();
    writeln!(child.stdin.take().unwrap(), "{lease}").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"{\"released\":true,\"version\":1}\n");
    assert!(!store.is_held("j"));
}

#[test]
fn a_lease_that_nobody_can_read_is_given_back() {
    let store = Store::new();
    let mut acquire = store.command(["acquire", "j", "--ttl", "10m"]);
    let mut child = acquire
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!store.is_held("j"));
}

#[test]
fn who_is_held_up_is_told_by_whom() {
    let store = Store::new();
    store.ask(["acquire", "j", "--ttl", "10m"]);
    let said = store.ask(["acquire", "j", "--ttl", "10m", "--no-wait"]);
    assert_eq!((said.code(), said.stdout.as_str()), (1, ""));
    let line = masked(&said.stderr, &store);
    assert!(
        line.starts_with("error: lock \"j\" is held by process N on "),
        "{line}"
    );
}

#[test]
fn force_wants_to_be_meant_and_says_whom_it_hit() {
    let store = Store::new();
    store.ask(["acquire", "j", "--ttl", "10m"]);
    let said = store.ask(["release", "--force", "j"]);
    assert_eq!(said.code(), 2);
    assert!(said.stderr.contains("--yes"), "{said:?}");
    let other = store.ask(["release", "--force", "j", "--owner", "somebody;", "--yes"]);
    assert_eq!(other.code(), 1);
    assert!(store.is_held("j"));
    let owner = store.status("j")["holders"][0]["owner"]
        .as_str()
        .unwrap()
        .to_owned();
    let said = store.ask([
        "release", "--force", "j", "--owner", &owner, "--yes", "--json",
    ]);
    assert_eq!(said.code(), 0);
    assert_eq!(said.json()["owners"][0], owner.as_str());
    assert!(
        said.stderr.starts_with("note: lock \"j\": ended process "),
        "{said:?}"
    );
    let again = store.ask(["release", "--force", "j", "--yes"]);
    assert_eq!(
        (again.code(), again.stderr.as_str()),
        (1, "note: lock \"j\" is not held\n")
    );
}

#[test]
fn a_script_holds_a_lock_around_several_commands() {
    let store = Store::new();
    let marker = Marker::new();
    let script = format!(
        "set -e; lease=$({0} acquire j --ttl 10m); {0} status j > /dev/null; \
         lease=$({0} renew \"$lease\"); {0} release \"$lease\"; ! {0} status j > /dev/null",
        env!("CARGO_BIN_EXE_leasehold")
    );
    let status = Command::new("sh")
        .args(["-c", &script])
        .env("LEASEHOLD_URL", store.url())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(marker.alive(), 0);
}
