//! Connecting and waiting, while signals end it and people are told what it waits for.

use std::{future::Future, time::Duration};

use leasehold::{Client, Error, ErrorKind, Status};
use nix::sys::signal::Signal;

use crate::{
    cli::Waiting,
    commands::describe,
    exit::{Exit, Problem},
    output::{Level, Talk, escape},
    signals::Signals,
    time::CLOCK,
};

/// How long a command that was told to end takes for tidying up.
const FAREWELL: Duration = Duration::from_millis(800);

/// What came of something that signals can end.
pub(crate) enum Ended<T> {
    Done(T),
    Signal(Signal),
}

/// Does `work` unless a signal comes first.
///
/// # Cancel safety
///
/// That of `work`.
pub(crate) async fn unless_signalled<T>(
    signals: &mut Signals,
    work: impl Future<Output = T>,
) -> Ended<T> {
    tokio::select! {
        biased;
        signal = signals.next() => Ended::Signal(signal),
        done = work => Ended::Done(done),
    }
}

/// Does `taking`, which is to acquire `names`. Told to end, it leaves the queue first.
///
/// # Errors
///
/// They were not acquired.
pub(crate) async fn acquire<T>(
    client: &Client,
    names: &[String],
    taking: impl Future<Output = Result<Option<T>, Error>>,
    waiting: Waiting,
    signals: &mut Signals,
    talk: &Talk,
) -> Result<T, Problem> {
    let ended = {
        let taking = async {
            tokio::select! {
                biased;
                taken = taking => taken,
                () = keep_telling(client, names, talk), if !waiting.no_wait => {
                    std::future::pending().await
                }
            }
        };
        unless_signalled(signals, taking).await
    };
    match ended {
        Ended::Done(taken) => match taken {
            Ok(Some(guard)) => Ok(guard),
            Ok(None) => Err(refusal(client, names, waiting, None).await),
            Err(error) => Err(refusal(client, names, waiting, Some(error)).await),
        },
        Ended::Signal(signal) => {
            farewell(client, talk).await;
            Err(stopped(signal))
        }
    }
}

/// Why a command ends that a signal told to.
pub(crate) fn stopped(signal: Signal) -> Problem {
    Problem::with_exit(Exit::signal(signal as i32), format!("stopped by {signal}"))
}

/// Waits until what was begun is undone in the store, though not for long.
pub(crate) async fn farewell(client: &Client, talk: &Talk) {
    if let Err(error) = client.shutdown(FAREWELL).await {
        talk.say(
            Level::Warning,
            format!("{error}; the name may stay taken until its TTL"),
        );
    }
}

/// Why the lock was not acquired, with who has it.
async fn refusal(
    client: &Client,
    names: &[String],
    waiting: Waiting,
    error: Option<Error>,
) -> Problem {
    match error {
        Some(error) if error.kind() != ErrorKind::Timeout => error.into(),
        error => {
            let named = error.as_ref().and_then(Error::holder).map(describe);
            let name = error.as_ref().and_then(Error::lock_name);
            let (name, holder) = match (name, named) {
                (Some(name), Some(holder)) => (escape(name), Some(holder)),
                _ => {
                    let (name, status) = in_the_way(client, names).await;
                    let status = status.ok();
                    let holder = status.and_then(|status| status.holders.first().map(describe));
                    (escape(name), holder)
                }
            };
            let holder = holder.unwrap_or_else(|| "another".into());
            let hint = if waiting.no_wait {
                "wait for it with --wait DUR, or see who waits with leasehold status"
            } else {
                "see who waits with leasehold status, or wait longer with --wait DUR"
            };
            Problem::busy(format!("lock {name:?} is held by {holder}")).hint(hint)
        }
    }
}

/// Says what is waited for: after a second, and then ever more rarely.
async fn keep_telling(client: &Client, names: &[String], talk: &Talk) {
    let mut pause = Duration::from_secs(1);
    loop {
        CLOCK.sleep_until(CLOCK.now().after(pause)).await;
        let (name, status) = in_the_way(client, names).await;
        let news = match status {
            Ok(status) => situation(&status),
            Err(error) => format!("the store does not answer: {error}"),
        };
        talk.say(
            Level::Note,
            format!("waiting for {:?}: {news}", escape(name)),
        );
        pause = pause.saturating_mul(10).min(Duration::from_secs(3600));
    }
}

/// The first of `names` that is not free, or else the first; and its status.
async fn in_the_way<'a>(client: &Client, names: &'a [String]) -> (&'a str, Result<Status, Error>) {
    for name in names {
        match client.inspect(name).await {
            Ok(status) if status.is_free() && status.waiters.is_empty() => {}
            status => return (name, status),
        }
    }
    let first = names.first().map_or("", String::as_str);
    (first, client.inspect(first).await)
}

fn situation(status: &Status) -> String {
    let holder = match &status.holders[..] {
        [] => "free".into(),
        [holder] => format!("held by {}", describe(holder)),
        [holder, others @ ..] => format!("held by {} and {} more", describe(holder), others.len()),
    };
    match status.waiters.len() {
        0 | 1 => holder,
        waiters => format!("{holder}; {waiters} in the queue"),
    }
}
