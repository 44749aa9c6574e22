//! What a process does at a fenced resource; `src/bin/fenced.rs` is that process.
#![allow(clippy::print_stdout)] // answering on stdout is that program's work
#![allow(clippy::future_not_send)] // and it runs nothing else

use std::{
    io::{self, BufRead, Write},
    time::Duration,
};

use leasehold::{
    Client,
    fence::{Claim, Error, Fence},
};

/// Long enough between read and write for a test to get hold of the process there.
const THINKING: Duration = Duration::from_millis(8);

/// Acquires the lock, claims and reads the resource of its name, and says `read TOKEN COUNT`; then,
/// for each line of stdin, writes what it read plus one, without asking whether it still holds the
/// lock, and says `written`, `stale SHOWN SEEN` or `failed`.
///
/// # Panics
///
/// If the lock or the claim is refused.
pub async fn hold(client: &Client, fence: impl Fence, name: &str, ttl: Duration) {
    let lock = client.lock(name).with_ttl(ttl);
    let guard = lock.acquire().await.expect("a lock");
    let mut claim = fence.claim(name, &guard).await.expect("a claim");
    let count = number(&claim.read().await.expect("a read"));
    say(&format!("read {} {count}", guard.fencing_token()));
    for _ in io::stdin().lock().lines().map_while(Result::ok) {
        let next = (count + 1).to_string();
        say(&match claim.write(next.as_bytes()).await {
            Ok(()) => "written".into(),
            Err(Error::Stale { shown, seen, .. }) => format!("stale {shown} {seen}"),
            Err(error) => format!("failed {error}"),
        });
    }
}

/// Counts up the resource `name` under its lock for ever: says `read N` between read and write,
/// then `counted N`, `stale N` when it was refused or `maybe N` when it cannot know.
pub async fn count(client: &Client, fence: impl Fence, name: &str, ttl: Duration) {
    let lock = client.lock(name).with_ttl(ttl);
    loop {
        let Ok(guard) = lock.acquire().await else {
            continue;
        };
        if let Ok(mut claim) = fence.claim(name, &guard).await
            && let Ok(content) = claim.read().await
        {
            let next = number(&content) + 1;
            say(&format!("read {next}"));
            tokio::time::sleep(THINKING).await;
            match claim.write(next.to_string().as_bytes()).await {
                Ok(()) => say(&format!("counted {next}")),
                Err(Error::Stale { .. }) => say(&format!("stale {next}")),
                Err(_) => say(&format!("maybe {next}")),
            }
        }
        // Whether it was lost meanwhile is just what this is not to depend on.
        let _ = guard.release().await;
    }
}

fn number(content: &[u8]) -> u64 {
    let text = std::str::from_utf8(content).expect("digits");
    if text.is_empty() {
        0
    } else {
        text.parse().expect("digits")
    }
}

fn say(line: &str) {
    println!("{line}");
    io::stdout().flush().expect("somebody listens");
}
