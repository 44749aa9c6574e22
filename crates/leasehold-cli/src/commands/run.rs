//! `leasehold run NAME -- CMD`

use std::time::Duration;

use leasehold::{Client, ErrorKind, Guard, Lock};
use nix::sys::signal::Signal;

use crate::{
    check,
    child::{self, Options, Outcome, plan},
    cli::{Global, Run},
    env,
    exit::{Exit, Problem, Scheme},
    output::{Level, Talk, escape},
    signals::Signals,
    store::Store,
    wait::{self, Ended},
};

/// Runs a command while holding a lock.
///
/// # Errors
///
/// The command was not run.
pub(crate) async fn run(args: &Run, global: &Global, talk: &Talk) -> Result<Exit, Problem> {
    let mut signals = Signals::install()
        .map_err(|error| Problem::usage(format!("cannot watch for signals: {error}")))?;
    let grace = check(args)?;
    let store = Store::find(global, talk)?;
    store.note(talk);
    let client = match wait::unless_signalled(&mut signals, store.connect()).await {
        Ended::Done(client) => client?,
        Ended::Signal(signal) => return Err(wait::stopped(signal)),
    };
    match wait::unless_signalled(&mut signals, refuse_nested(&client, &args.name)).await {
        Ended::Done(nested) => nested?,
        Ended::Signal(signal) => return Err(wait::stopped(signal)),
    }
    let lock = lock(&client, args);
    let lease = match wait::acquire(&client, &lock, args.waiting, &mut signals, talk).await {
        Ok(lease) => lease,
        Err(problem) if problem.is_busy() => return busy(args, problem, talk),
        Err(problem) => return Err(problem),
    };
    let options = Options {
        // A store may have rounded the TTL up.
        grace: plan::grace(args.grace, lease.ttl().get()).unwrap_or(grace),
        on_lost: args.on_lost,
        max_hold: args.max_hold,
        format: global.log_format,
        quiet: global.quiet,
        nested: !env::held().is_empty(),
    };
    let environment = env::for_command(&lease);
    let held = (&client, &lease);
    match child::run(
        held,
        &args.command,
        &environment,
        options,
        &mut signals,
        talk,
    )
    .await
    {
        Ok(outcome) => Ok(give_back(lease, outcome, &mut signals, talk).await),
        Err(problem) => {
            let exit = problem.exit(Scheme::Run);
            give_back(lease, Outcome { exit, lost: false }, &mut signals, talk).await;
            Err(problem)
        }
    }
}

/// Refuses what cannot be before anyone waits. Answers the grace.
fn check(args: &Run) -> Result<Duration, Problem> {
    check::name(&args.name)?;
    check::ttl(args.ttl)?;
    check::at_least(args.at_least)?;
    check::label(args.label.as_deref())?;
    plan::grace(args.grace, args.ttl).map_err(|message| {
        Problem::usage(message).hint("without --grace it is a quarter of the TTL, at most 5s")
    })
}

fn lock(client: &Client, args: &Run) -> Lock {
    let label = args.label.clone().unwrap_or_else(|| {
        let program = args
            .command
            .first()
            .map(|program| program.to_string_lossy());
        program.unwrap_or_default().chars().take(50).collect()
    });
    let lock = client.lock(&args.name).with_ttl(args.ttl).with_label(label);
    match args.at_least {
        Some(span) => lock.with_min_hold(span),
        None => lock,
    }
}

/// Refuses what would wait for itself: a run under a lock that a run around it holds.
async fn refuse_nested(client: &Client, name: &str) -> Result<(), Problem> {
    let around = env::held();
    if around.is_empty() {
        return Ok(());
    }
    let holders = client.inspect(name).await?.holders;
    if holders.iter().any(|holder| around.contains(&holder.value)) {
        let message = format!(
            "lock {:?} is already held by a run around this one",
            escape(name)
        );
        return Err(Problem::usage(message)
            .hint("run the inner command without leasehold, or under another name"));
    }
    Ok(())
}

/// The lock was not acquired in time. With `-E 0` that is as it should be, and no word is said.
fn busy(args: &Run, problem: Problem, talk: &Talk) -> Result<Exit, Problem> {
    match args.conflict_exit_code {
        None => Err(problem),
        Some(code) => {
            if code == 0 {
                talk.say(Level::Info, &problem.message);
            } else {
                talk.problem(&problem);
            }
            Ok(Exit::code(code))
        }
    }
}

/// Releases the lock, which a signal does not keep from being done, and answers the exit status.
async fn give_back(lease: Guard, outcome: Outcome, signals: &mut Signals, talk: &Talk) -> Exit {
    let Outcome { exit, lost } = outcome;
    if lost {
        return exit;
    }
    let left = lease.remaining();
    let mut release = std::pin::pin!(lease.release());
    let mut signal: Option<Signal> = None;
    loop {
        tokio::select! {
            biased;
            another = signals.next() => {
                if signal.replace(another).is_some() {
                    talk.say(Level::Warning, unreleased(left));
                    break;
                }
            }
            released = &mut release => {
                match released {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::Lost => {
                        talk.say(Level::Warning, error.to_string());
                        return Exit::LOST;
                    }
                    Err(error) => {
                        talk.say(Level::Warning, format!("{error}; {}", unreleased(left)));
                    }
                }
                break;
            }
        }
    }
    match signal {
        // Interrupted is never success.
        Some(signal) if exit == Exit::YES => Exit::signal(signal as i32),
        _ => exit,
    }
}

fn unreleased(left: Duration) -> String {
    let left = crate::duration::show(left);
    format!("the release is not confirmed, and the lock may stay taken for up to {left}")
}
