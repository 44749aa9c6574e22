//! Processes at one file that are killed or stopped. Run with `cargo test --test file_crash`.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_methods)]

use std::{collections::BTreeMap, path::Path, thread, time::Duration};

use leasehold::{Client, ErrorKind, FencingToken, clock::Clock};
use leasehold_tests::holder::{Holder, file_url};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::tempdir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_holder");
const LONG: Duration = Duration::from_secs(60);

fn signal(holder: &Holder, signal: Signal) {
    let id = i32::try_from(holder.id()).unwrap();
    kill(Pid::from_raw(id), signal).unwrap();
}

#[test]
fn a_killed_holder_s_lock_passes_on_at_once() {
    let home = tempdir().unwrap();
    let url = file_url(home.path());
    let clock = Clock::system();
    let mut best = LONG;
    for round in 0..5 {
        let mut holder = Holder::start(PROGRAM, &[&url, "hold", "x", "60000"]);
        let first: u64 = holder.expect("held").parse().unwrap();
        let waiter = Holder::start(PROGRAM, &[&url, "hold", "x", "60000"]);
        wait_for_waiters(&url, "x", 1);
        let killed = clock.now();
        holder.kill();
        let second: u64 = waiter.expect("held").parse().unwrap();
        let took = clock.now() - killed;
        eprintln!("round {round}: the waiter held {took:?} after the kill");
        assert!(second > first);
        best = best.min(took);
    }
    // The TTL is 60 s; 250 ms is the aim on a machine with nothing else to do.
    assert!(best < Duration::from_millis(2500), "{best:?}");
}

#[test]
fn a_stopped_holder_is_told_its_loss_when_it_goes_on() {
    let home = tempdir().unwrap();
    let url = file_url(home.path());
    let mut holder = Holder::start(PROGRAM, &[&url, "hold", "x", "1000"]);
    let first: u64 = holder.expect("held").parse().unwrap();
    holder.tell("check");
    assert_eq!(holder.line(), "ok");
    let mut waiter = Holder::start(PROGRAM, &[&url, "hold", "x", "1000"]);
    wait_for_waiters(&url, "x", 1);
    signal(&holder, Signal::SIGSTOP);
    let second: u64 = waiter.expect("held").parse().unwrap();
    assert!(second > first);
    signal(&holder, Signal::SIGCONT);
    holder.tell("check");
    assert_eq!(holder.line(), "Lost");
    holder.tell("release");
    assert_eq!(holder.line(), "Lost");
    waiter.tell("check");
    assert_eq!(waiter.line(), "ok");
    waiter.tell("release");
    assert_eq!(waiter.line(), "ok");
}

#[test]
fn b04_a_killed_writer_loses_nothing_that_was_answered() {
    let home = tempdir().unwrap();
    let url = file_url(home.path());
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    let mut freed: Vec<String> = Vec::new();
    let mut tokens: Vec<u64> = Vec::new();
    for round in 0..24_u64 {
        let prefix = format!("r{round}/");
        let mut writer = Holder::start(PROGRAM, &[&url, "leave", &prefix]);
        let mut said = vec![writer.line()];
        thread::sleep(Duration::from_micros(round * 7919 % 60_000));
        writer.kill();
        said.extend(writer.remaining_lines());
        for line in said {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, name, token] = words[..] else {
                // The last line may have been cut short by the kill.
                continue;
            };
            tokens.push(token.parse().unwrap());
            match what {
                "held" => drop(held.insert(name.into(), token.parse().unwrap())),
                "freed" => freed.push(name.into()),
                other => panic!("{other}"),
            }
        }
    }
    eprintln!("{} held, {} freed", held.len(), freed.len());
    assert!(
        tokens.windows(2).all(|pair| pair[0] < pair[1]),
        "tokens rise"
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&url).await.unwrap();
        let found = client.list("").await.unwrap();
        let found: BTreeMap<&str, u64> = found
            .iter()
            .map(|status| {
                assert_eq!(status.holders.len(), 1, "{status:?}");
                let token = status.holders[0].token.map(FencingToken::get);
                (status.name.as_str(), token.unwrap())
            })
            .collect();
        for (name, token) in &held {
            assert_eq!(found.get(name.as_str()), Some(token), "{name}");
        }
        for name in &freed {
            assert_eq!(found.get(name.as_str()), None, "{name}");
        }
        // What was taken and not yet answered may be there; one for each writer at most.
        assert!(found.len() <= held.len() + 24);
    });
    assert_eq!(leftover_sessions(home.path()), 0);
}

/// As on a full disk: the file cannot grow, which says nothing about what was written before.
#[test]
fn a_file_that_cannot_grow_loses_nothing_that_was_answered() {
    let home = tempdir().unwrap();
    let url = file_url(home.path());
    let script = "trap '' XFSZ; ulimit -f 1000; exec \"$0\" \"$@\"";
    let writer = Holder::start("sh", &["-c", script, PROGRAM, &url, "leave", "n"]);
    let mut said = writer.remaining_lines();
    let error = said.pop().unwrap();
    eprintln!("{error}");
    assert!(error.contains("locks.db"), "{error}");
    let held = said.iter().filter(|line| line.starts_with("held")).count();
    assert!(held > 2, "{said:?}");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&url).await.unwrap();
        let found = client.list("").await.unwrap();
        assert!((held..=held + 1).contains(&found.len()), "{held} {found:?}");
        client
            .lock("more")
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    });
}

/// A process stopped at any moment, also inside the gate, makes nobody hang; one stopped inside
/// it is named.
#[test]
fn a_process_stopped_at_any_moment_makes_nobody_hang() {
    let home = tempdir().unwrap();
    let claims = tempdir().unwrap();
    let url = file_url(home.path());
    let directory = claims.path().to_str().unwrap();
    let mut busy = Holder::start(PROGRAM, &[&url, "hammer", "600", "50", directory]);
    assert_eq!(busy.line(), "ready");
    busy.tell("go");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let builder = Client::builder().call_timeout(Duration::from_secs(2));
        let client = builder.connect(&url).await.unwrap();
        let lock = client.lock("other");
        let (mut passed, mut named) = (0, 0);
        for round in 0..20_u64 {
            tokio::time::sleep(Duration::from_micros(round * 7919 % 20_000)).await;
            signal(&busy, Signal::SIGSTOP);
            let answer = tokio::time::timeout(LONG, lock.try_acquire())
                .await
                .unwrap();
            let guard = match answer {
                Ok(guard) => {
                    passed += 1;
                    guard
                }
                Err(error) => {
                    assert!(error.is_retryable(), "{error}");
                    if error.kind() == ErrorKind::Unavailable {
                        assert!(
                            error.to_string().contains(&busy.id().to_string()),
                            "{error}"
                        );
                        named += 1;
                    }
                    None
                }
            };
            signal(&busy, Signal::SIGCONT);
            if let Some(guard) = guard {
                guard.release().await.unwrap();
            }
        }
        eprintln!("{passed} passed, {named} named the stopped process");
        let _guard = tokio::time::timeout(LONG, lock.acquire())
            .await
            .unwrap()
            .unwrap();
    });
}

fn wait_for_waiters(url: &str, name: &str, count: usize) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Client::connect(url).await.unwrap();
        let until = client.clock().now().after(LONG);
        while client.inspect(name).await.unwrap().waiters.len() < count {
            assert!(client.clock().now() < until, "nobody waits");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

/// Session files beside the store once everybody has gone and one more has come and gone.
fn leftover_sessions(home: &Path) -> usize {
    let probe = Holder::start(PROGRAM, &[&file_url(home), "try", "probe"]);
    probe.expect("granted");
    let _ = probe.remaining_lines();
    drop(probe);
    let files = std::fs::read_dir(home.join("locks.db.d")).unwrap();
    files
        .filter(|file| {
            let path = file.as_ref().unwrap().path();
            // The probe's own, if it was quicker than its clean-up.
            std::fs::File::open(path).is_ok_and(|file| file.try_lock().is_err())
        })
        .count()
}
