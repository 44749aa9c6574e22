//! Readers, writers and permits, mixed in many processes, while some are killed and stopped and the
//! network is cut.

use std::{
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use leasehold_testkit::{history::Record, proxy::Proxy, servers::RedisServer, sim::dice::Dice};
use leasehold_tests::{
    chaos::{Crew, now},
    holder::file_url,
    waits::{self, Terms},
};
use tempfile::tempdir;

use super::chaos::{ACTOR, HISTORIES, dice, runtime};

const NAMES: &[&str] = &["rw", "pool", "x"];
const TERMS: Terms = Terms {
    ttl: Duration::from_secs(1),
    patience: Duration::from_secs(1),
    grace: Duration::from_secs(20),
};

/// How many processes, for how long: with `LEASEHOLD_DEEP` fifty for a minute.
fn scale() -> (usize, Duration) {
    if std::env::var_os("LEASEHOLD_DEEP").is_some() {
        (50, Duration::from_secs(60))
    } else {
        (8, Duration::from_secs(8))
    }
}

fn judge(records: &[Record], network: &[(u64, u64)]) {
    let deep = std::env::var_os("LEASEHOLD_DEEP").is_some();
    let grace = if deep { Duration::ZERO } else { TERMS.grace };
    let (longest, found) = waits::check(records, network, Terms { grace, ..TERMS });
    eprintln!("{} records, the longest wait {longest:?}", records.len());
    assert!(found.is_empty(), "{found:#?}");
}

fn kill_or_stop(crew: &mut Crew, dice: &Dice) {
    match dice.below(3) {
        0 => crew.kill_one(),
        1 => crew.stop_one(dice.millis(200)),
        _ => crew.stop_one(Duration::from_millis(800) + dice.millis(800)),
    }
}

#[test]
fn readers_writers_and_permits_at_a_file_keep_apart_and_nobody_waits_too_long() {
    let (home, dice, runtime, (size, span)) = (tempdir().unwrap(), dice(), runtime(), scale());
    let url = file_url(home.path());
    let mut crew = Crew::start_at(NAMES, ACTOR, &url, size, dice.split());
    let begun = Instant::now();
    while begun.elapsed() < span {
        sleep(dice.millis(300));
        kill_or_stop(&mut crew, &dice);
    }
    let records = crew.check(&runtime, now(), Path::new(HISTORIES));
    judge(&records, &[]);
}

#[test]
fn readers_writers_and_permits_at_a_server_keep_apart_and_nobody_waits_too_long() {
    let (dice, runtime, (size, span)) = (dice(), runtime(), scale());
    let server = RedisServer::start();
    let proxy = runtime.block_on(Proxy::start(server.address()));
    let url = format!("redis://{}", proxy.address());
    let mut crew = Crew::start_at(NAMES, ACTOR, &url, size, dice.split());
    let mut network = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < span {
        sleep(dice.millis(300));
        if dice.chance(500) {
            kill_or_stop(&mut crew, &dice);
            continue;
        }
        let from = now();
        match dice.below(3) {
            0 => proxy.cut(),
            1 => proxy.swallow_replies(),
            _ => proxy.black_hole(),
        }
        sleep(dice.millis(400));
        proxy.recover();
        // What is half-open stays so until the client gives up its call, after five seconds.
        proxy.cut();
        network.push((from, now()));
    }
    let records = crew.check(&runtime, now(), Path::new(HISTORIES));
    nothing_left(&server);
    judge(&records, &network);
}

/// Once every lease and every patience is over, only the fencing counters are left.
fn nothing_left(server: &RedisServer) {
    let begun = Instant::now();
    loop {
        let keys = server.cli(&["KEYS", "*"]);
        if keys.lines().all(|key| key.ends_with("~fence")) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "left: {keys}");
        sleep(Duration::from_millis(50));
    }
}
