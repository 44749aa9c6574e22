//! A process that takes locks, for tests that kill it, stop it or let many of it loose.
//!
//! ```text
//! holder URL hold NAME TTL-MS [MANNER]     acquire, say "held TOKEN"; then for each line of stdin
//!                                          "check" or "release", answer; at its end, exit. MANNER
//!                                          is "read", or "permit" for one of three
//! holder URL try NAME                      "granted TOKEN", "busy" or "error KIND|MESSAGE|HINT"
//! holder URL hammer SECONDS NAMES DIR      say "ready"; at a line of stdin, acquire and release
//!                                          names, each guarded by a file in DIR; "cycles N"
//! holder URL leave PREFIX                  acquire and detach one name after another, and release
//!                                          every second one; "held NAME TOKEN", "freed NAME"
//! holder URL storm PROCESS NAMES TTL-MS    take names by turns in three tasks and write down what
//!                                          happens, as records of a history; ends at a line
//! ```

#![allow(clippy::print_stdout)] // answering on stdout is this program's work

use std::{
    env,
    fs::OpenOptions,
    io::{self, BufRead, Write},
    path::Path,
    time::Duration,
};

use leasehold::{CancellationToken, Client, Error, Guard, random::Random};
use leasehold_testkit::history::{Manner, Record, What};

#[tokio::main(worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [url, command, rest @ ..] = arguments.as_slice() else {
        panic!("no URL and command");
    };
    let done = match Client::connect(url).await {
        Err(error) => Err(error),
        Ok(client) => match (*command, rest) {
            ("hold", [name, ttl]) => hold(&client, name, number(ttl), "write").await,
            ("hold", [name, ttl, manner]) => hold(&client, name, number(ttl), manner).await,
            ("try", [name]) => attempt(&client, name).await,
            ("hammer", [seconds, names, claims]) => {
                hammer(&client, number(seconds), number(names), Path::new(claims)).await
            }
            ("leave", [prefix]) => leave(&client, prefix).await,
            ("storm", [process, names, ttl]) => {
                storm(&client, process, number(names), number(ttl)).await
            }
            _ => panic!("unknown command {command}"),
        },
    };
    if let Err(error) = done {
        let hint = error.hint().unwrap_or_default();
        say(&format!("error {:?}|{error}|{hint}", error.kind()));
    }
}

async fn hold(client: &Client, name: &str, ttl: u64, manner: &str) -> Result<(), Error> {
    let ttl = Duration::from_millis(ttl);
    let guard = match manner {
        "write" => client.lock(name).with_ttl(ttl).acquire().await?,
        "read" => client.rw_lock(name).with_ttl(ttl).read().await?,
        "permit" => client.semaphore(name, 3).with_ttl(ttl).acquire().await?,
        _ => panic!("unknown manner {manner}"),
    };
    say(&format!("held {}", guard.fencing_token()));
    let (sender, mut lines) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let mut guard: Option<Guard> = Some(guard);
    while let Some(line) = lines.recv().await {
        let answer = match (line.as_str(), guard.as_ref()) {
            ("check", Some(guard)) => guard.check(),
            ("release", Some(_)) => match guard.take() {
                Some(guard) => guard.release().await,
                None => Ok(()),
            },
            _ => panic!("unknown line {line}"),
        };
        match answer {
            Ok(()) => say("ok"),
            Err(error) => say(&format!("{:?}", error.kind())),
        }
    }
    Ok(())
}

async fn attempt(client: &Client, name: &str) -> Result<(), Error> {
    match client.lock(name).try_acquire().await? {
        Some(guard) => {
            say(&format!("granted {}", guard.fencing_token()));
            guard.release().await
        }
        None => {
            say("busy");
            Ok(())
        }
    }
}

async fn hammer(client: &Client, seconds: u64, names: u64, claims: &Path) -> Result<(), Error> {
    say("ready");
    let mut line = String::new();
    io::stdin()
        .read_line(&mut line)
        .expect("a line to start at");
    let clock = client.clock();
    let end = clock.now().after(Duration::from_secs(seconds));
    let mut cycles = 0_u64;
    // Each process goes through the names in an order of its own.
    let stride = u64::from(std::process::id()) % names.max(1);
    while clock.now() < end {
        let name = format!("n{}", (cycles * 7919 + stride) % names.max(1));
        let guard = client.lock(&name).acquire().await?;
        let claim = claims.join(&name);
        let alone = OpenOptions::new().write(true).create_new(true).open(&claim);
        assert!(alone.is_ok(), "{name} is held by two: {alone:?}");
        tokio::task::yield_now().await;
        std::fs::remove_file(&claim).expect("our claim");
        guard.release().await?;
        cycles += 1;
    }
    say(&format!("cycles {cycles}"));
    Ok(())
}

async fn leave(client: &Client, prefix: &str) -> Result<(), Error> {
    for count in 0_u64.. {
        let name = format!("{prefix}{count}");
        let limit = Duration::from_secs(5);
        let guard = client.lock(&name).acquire_timeout(limit).await?;
        let token = guard.fencing_token();
        if count % 2 == 0 {
            guard.into_lease().await?;
            say(&format!("held {name} {token}"));
        } else {
            guard.release().await?;
            say(&format!("freed {name} {token}"));
        }
    }
    Ok(())
}

async fn storm(client: &Client, process: &str, names: u64, ttl: u64) -> Result<(), Error> {
    const TASKS: u64 = 3;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    std::thread::spawn(move || {
        let _ = io::stdin().read_line(&mut String::new());
        stopped.cancel();
    });
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let ops = Ops {
            client: client.clone(),
            process: process.into(),
            random: Random::system(),
        };
        let stop = stop.clone();
        tasks.push(tokio::spawn(async move {
            let mut op = task;
            while !stop.is_cancelled() {
                ops.run(op, names, Duration::from_millis(ttl)).await;
                op += TASKS;
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    client.shutdown(Duration::from_secs(5)).await
}

/// Acquisitions that are written down.
struct Ops {
    client: Client,
    process: String,
    random: Random,
}

impl Ops {
    async fn run(&self, op: u64, names: u64, ttl: Duration) {
        let name = format!("n{}", self.random.bits() % names);
        let lock = self.client.lock(&name).with_ttl(ttl);
        let manner = Manner::Exclusive;
        let renewed = true;
        self.record(
            op,
            What::Asked {
                name,
                manner,
                renewed,
            },
        );
        let Ok(guard) = lock.acquire_timeout(Duration::from_secs(2)).await else {
            return self.record(op, What::Refused);
        };
        let deadline = guard.deadline().as_nanos();
        let token = guard.fencing_token().get();
        self.record(op, What::Granted { token, deadline });
        let hold = Duration::from_micros(self.random.bits() % 20_000);
        let lost = tokio::time::timeout(hold, guard.lost()).await.is_ok();
        let deadline = guard.deadline().as_nanos();
        if lost || guard.check().is_err() {
            return self.record(op, What::Lost { deadline });
        }
        self.record(op, What::Release { deadline });
        let _ = guard.release().await;
    }

    fn record(&self, op: u64, what: What) {
        // One at a time, so that the lines are in the order of their times.
        let out = io::stdout();
        let mut out = out.lock();
        let record = Record {
            at: self.client.clock().now().as_nanos(),
            process: self.process.clone(),
            op,
            what,
        };
        let line = serde_json::to_string(&record).expect("a record is JSON");
        writeln!(out, "{line}").expect("somebody listens");
        out.flush().expect("somebody listens");
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn say(line: &str) {
    println!("{line}");
    io::stdout().flush().expect("somebody listens");
}
