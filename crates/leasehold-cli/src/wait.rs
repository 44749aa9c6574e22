//! Connecting and waiting, while signals end it and people are told what it waits for.

use std::{future::Future, time::Duration};

use leasehold::{Client, Error, ErrorKind, Guard, Lock, Status};
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

/// Acquires `lock`. Told to end, it leaves the queue first.
///
/// # Errors
///
/// The lock was not acquired.
pub(crate) async fn acquire(
    client: &Client,
    lock: &Lock,
    waiting: Waiting,
    signals: &mut Signals,
    talk: &Talk,
) -> Result<Guard, Problem> {
    let ended = {
        let taking = async {
            tokio::select! {
                biased;
                taken = take(lock, waiting) => taken,
                () = keep_telling(client, lock.name(), talk), if !waiting.no_wait => {
                    std::future::pending().await
                }
            }
        };
        unless_signalled(signals, taking).await
    };
    match ended {
        Ended::Done(taken) => match taken {
            Ok(Some(guard)) => Ok(guard),
            Ok(None) => Err(refusal(client, lock, waiting, None).await),
            Err(error) => Err(refusal(client, lock, waiting, Some(error)).await),
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

async fn take(lock: &Lock, waiting: Waiting) -> Result<Option<Guard>, Error> {
    match waiting {
        // No time at all is not even enough to ask.
        Waiting {
            wait: Some(Duration::ZERO),
            ..
        } => lock.try_acquire().await,
        Waiting { no_wait: true, .. } => lock.try_acquire().await,
        Waiting {
            wait: Some(limit), ..
        } => lock.acquire_timeout(limit).await.map(Some),
        Waiting { wait: None, .. } => lock.acquire().await.map(Some),
    }
}

/// Why the lock was not acquired, with who has it.
async fn refusal(client: &Client, lock: &Lock, waiting: Waiting, error: Option<Error>) -> Problem {
    match error {
        Some(error) if error.kind() != ErrorKind::Timeout => error.into(),
        error => {
            let named = error.as_ref().and_then(Error::holder).map(describe);
            let holder = match named {
                Some(holder) => Some(holder),
                None => {
                    let status = client.inspect(lock.name()).await.ok();
                    status.and_then(|status| status.holders.first().map(describe))
                }
            };
            let name = escape(lock.name());
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
async fn keep_telling(client: &Client, name: &str, talk: &Talk) {
    let mut pause = Duration::from_secs(1);
    loop {
        CLOCK.sleep_until(CLOCK.now().after(pause)).await;
        let news = match client.inspect(name).await {
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
