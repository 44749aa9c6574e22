//! A process in which many tasks wait for one lock over and over.
//!
//! ```text
//! crowd URL NAME TASKS CYCLES TTL-MS    say "ready"; at a line of stdin, let each of TASKS take
//!                                       NAME CYCLES times and hold it for 0 to 5 ms. For each
//!                                       time "held TOKEN ASKED BEGIN END", in ns of the boot
//!                                       clock; "error KIND" if it failed and is tried again;
//!                                       "done" at the end
//! ```

#![allow(clippy::print_stdout)] // answering on stdout is this program's work

use std::{
    env,
    io::{self, BufRead, Write},
    time::Duration,
};

use leasehold::{Client, random::Random};
use tokio::task::JoinSet;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, name, tasks, cycles, ttl] = &arguments[..] else {
        panic!("no URL, name, tasks, cycles and TTL");
    };
    let client = Client::connect(url).await.expect("a server");
    say("ready");
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .expect("a line to start at");
    let mut crowd = JoinSet::new();
    for _ in 0..number(tasks) {
        let ttl = Duration::from_millis(number(ttl));
        let lock = client.lock(name).with_ttl(ttl);
        let (cycles, clock) = (number(cycles), client.clock());
        crowd.spawn(async move {
            let mut left = cycles;
            while left > 0 {
                let asked = clock.now();
                let guard = match lock.acquire().await {
                    Ok(guard) => guard,
                    Err(error) => {
                        say(&format!("error {:?}", error.kind()));
                        continue;
                    }
                };
                let begin = clock.now();
                let hold = Duration::from_micros(Random::system().bits() % 5000);
                tokio::time::sleep(hold).await;
                let end = clock.now().min(guard.deadline());
                let token = guard.fencing_token();
                say(&format!(
                    "held {token} {} {} {}",
                    asked.as_nanos(),
                    begin.as_nanos(),
                    end.as_nanos()
                ));
                left -= 1;
                if let Err(error) = guard.release().await {
                    say(&format!("error {:?}", error.kind()));
                }
            }
        });
    }
    while crowd.join_next().await.is_some() {}
    say("done");
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn say(line: &str) {
    println!("{line}");
    io::stdout().flush().expect("somebody listens");
}
