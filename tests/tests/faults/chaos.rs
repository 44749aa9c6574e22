//! Random faults on real processes and real stores, with a history that is checked.

use std::{
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use leasehold_testkit::{
    checker::Check,
    proxy::Proxy,
    servers::{Data, RedisServer},
    sim::dice::Dice,
};
use leasehold_tests::{
    chaos::{Crew, now},
    holder::file_url,
};
use tempfile::tempdir;

pub(crate) const ACTOR: &str = env!("CARGO_BIN_EXE_actor");

/// Where the history of a run that failed is left.
pub(crate) const HISTORIES: &str = env!("CARGO_TARGET_TMPDIR");

/// How long the faults go on: a few seconds, and a minute with `LEASEHOLD_DEEP`.
fn span() -> Duration {
    let deep = std::env::var_os("LEASEHOLD_DEEP").is_some();
    Duration::from_secs(if deep { 60 } else { 6 })
}

pub(crate) fn dice() -> Dice {
    let seed = std::env::var("LEASEHOLD_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    eprintln!("LEASEHOLD_SEED={seed}");
    Dice::new(seed)
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().unwrap()
}

#[test]
fn processes_at_a_file_exclude_each_other_whatever_befalls_them() {
    let (home, dice, runtime) = (tempdir().unwrap(), dice(), runtime());
    let mut crew = Crew::start(ACTOR, &file_url(home.path()), 4, dice.split());
    let begun = Instant::now();
    while begun.elapsed() < span() {
        sleep(dice.millis(300));
        match dice.below(3) {
            0 => crew.kill_one(),
            1 => crew.stop_one(dice.millis(200)),
            _ => crew.stop_one(Duration::from_millis(800) + dice.millis(800)),
        }
    }
    crew.check(&runtime, now(), Path::new(HISTORIES));
}

#[test]
fn processes_at_a_server_exclude_each_other_whatever_befalls_the_network() {
    let (dice, runtime) = (dice(), runtime());
    let mut server = RedisServer::start();
    let proxy = runtime.block_on(Proxy::start(server.address()));
    let url = format!("redis://{}", proxy.address());
    let mut crew = Crew::start(ACTOR, &url, 4, dice.split());
    let begun = Instant::now();
    while begun.elapsed() < span() {
        sleep(dice.millis(300));
        match dice.below(9) {
            0 => crew.kill_one(),
            1 => crew.stop_one(Duration::from_millis(200) + dice.millis(1500)),
            2 => proxy.cut(),
            3 => proxy.lose_server(),
            4 => proxy.lose_client(),
            5 => proxy.swallow_replies(),
            6 => proxy.black_hole(),
            7 => proxy.delay(dice.millis(200)),
            _ => {
                server.pause();
                sleep(dice.millis(1000));
                server.resume();
            }
        }
        if dice.chance(100) {
            server.restart(Data::Kept);
        }
        sleep(dice.millis(400));
        proxy.recover();
        b04_every_entry_ends_by_itself(&server);
    }
    // What is half-open stays so until someone notices; here the network does.
    proxy.cut();
    crew.check(&runtime, now(), Path::new(HISTORIES));
}

/// No lock, queue or waiter is without an expiry; the fencing counter alone stays.
fn b04_every_entry_ends_by_itself(server: &RedisServer) {
    let keys = server.cli(&["KEYS", "*"]);
    for key in keys.lines().filter(|key| !key.ends_with("~fence")) {
        assert_ne!(server.cli(&["PTTL", key]), "-1", "{key} has no expiry");
    }
}

/// The control of these tests: a store that forgets who holds is noticed.
#[test]
fn b34_a_store_that_forgets_is_noticed() {
    let (dice, runtime) = (dice(), runtime());
    let server = RedisServer::start();
    let crew = Crew::start(ACTOR, &server.url(), 3, dice);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        sleep(Duration::from_millis(50));
        server.cli(&["FLUSHALL"]);
    }
    let (_, violations) = crew.finish(&runtime, now());
    assert!(
        violations.iter().any(|found| found.check == Check::Overlap),
        "{violations:?}"
    );
}
