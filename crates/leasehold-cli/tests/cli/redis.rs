//! The command on a Redis server: what differs from the file store.

use std::{
    fs,
    net::TcpListener,
    time::{Duration, Instant},
};

use leasehold_testkit::servers::RedisServer;
use nix::sys::signal::Signal;

use super::kit::{Marker, Running, Store, assert_in_time, bare, finish, wait_until};

#[test]
fn b27_with_the_server_away_the_command_ends_before_the_lease() {
    let server = RedisServer::start();
    let store = Store::at(&server.url());
    let marker = Marker::new();
    let script = marker.script("trap '' TERM");
    let running = store.start(["run", "j", "--ttl", "3s", "--", "sh", "-c", &script]);
    marker.wait_alive(2);
    server.pause();
    // Nothing that was renewed before can last longer than this.
    let begun = Instant::now();
    marker.wait_alive(0);
    assert_in_time(begun, Duration::from_secs(3));
    server.resume();
    let said = running.end();
    assert_eq!(said.code(), 123, "{said:?}");
    assert!(said.stderr.contains("renewal failing since"), "{said:?}");
}

#[test]
fn b27_a_lock_whose_entry_is_deleted_ends_the_command() {
    let server = RedisServer::start();
    let store = Store::at(&server.url());
    let marker = Marker::new();
    let script = marker.script("");
    let running = store.start(["run", "j", "--ttl", "2s", "--", "sh", "-c", &script]);
    marker.wait_alive(2);
    server.cli(&["DEL", "lock:j"]);
    let said = running.end();
    assert_eq!(said.code(), 123, "{said:?}");
    assert!(
        said.stderr
            .contains("lock \"j\" lost: the store no longer has it"),
        "{said:?}"
    );
    assert_eq!(marker.alive(), 0);
    assert!(!store.is_held("j"));
}

#[test]
fn b27_a_killed_wrapper_s_command_is_gone_before_its_lease_ends() {
    let server = RedisServer::start();
    let store = Store::at(&server.url());
    let marker = Marker::new();
    let script = marker.script("trap '' TERM");
    let running = store.start(["run", "j", "--ttl", "8s", "--", "sh", "-c", &script]);
    marker.wait_alive(2);
    running.signal(Signal::SIGKILL);
    wait_until("the lock is free", || {
        let held = store.is_held("j");
        assert!(held || marker.alive() == 0, "{} alive", marker.alive());
        !held
    });
}

#[test]
fn b29_signals_while_the_server_is_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut command = bare();
        command.args([
            "--url",
            &url,
            "--connect-timeout",
            "60s",
            "run",
            "j",
            "--",
            "echo",
            "ran",
        ]);
        let running = Running::start(&mut command);
        silent.set_nonblocking(true).unwrap();
        let mut connection = None;
        wait_until("it connects", || {
            connection = silent.accept().ok();
            connection.is_some()
        });
        running.signal(signal);
        let said = running.end();
        assert_eq!(
            (said.code(), said.stdout.as_str()),
            (128 + signal as i32, "")
        );
    }
}

#[test]
fn b30_whatever_the_server_says_the_command_is_not_started() {
    let server = RedisServer::start();
    server.cli(&["CONFIG", "SET", "requirepass", "s3cret/@"]);
    let address = server.address();
    let run = |url: &str| {
        finish(
            bare()
                .env("LEASEHOLD_URL", url)
                .args(["run", "j", "--", "echo", "ran"]),
        )
    };
    for (url, code) in [
        (format!("redis://{address}"), 125),
        (format!("redis://:wrong@{address}"), 125),
        ("redis://127.0.0.1:1".into(), 122),
    ] {
        let said = run(&url);
        assert_eq!((said.code(), said.stdout.as_str()), (code, ""), "{said:?}");
        assert!(
            said.stderr.contains(url.split('@').next_back().unwrap()),
            "{said:?}"
        );
        assert!(!said.stderr.contains("wrong"), "{said:?}");
    }
    let folder = Store::new();
    let file = folder.path().join("password");
    fs::write(&file, "s3cret/@\n").unwrap();
    let mut command = bare();
    command
        .args(["--url", &format!("redis://{address}"), "--password-file"])
        .arg(file);
    let said = finish(command.args(["run", "j", "--", "echo", "ran"]));
    assert_eq!(
        (said.code(), said.stdout.as_str(), said.stderr.as_str()),
        (0, "ran\n", "")
    );
}
