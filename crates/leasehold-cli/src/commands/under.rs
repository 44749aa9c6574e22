//! Running a command, once, under whatever is to be held.

use std::{ffi::OsString, time::Duration};

use leasehold::{Client, ErrorKind};
use nix::sys::signal::Signal;

use crate::{
    check,
    child::{self, Options, Outcome, plan},
    cli::{Global, Holding},
    env,
    exit::{Exit, Problem, Scheme},
    held::Held,
    output::{Level, Talk, escape},
    signals::Signals,
    store::Store,
    wait::{self, Ended},
    want::Want,
};

/// What a command is run under.
pub(super) struct Under<'a> {
    /// The lock that is named first, and all others.
    pub(super) names: &'a [String],
    pub(super) holding: &'a Holding,
    pub(super) global: &'a Global,
    pub(super) talk: &'a Talk,
}

impl Under<'_> {
    /// Refuses what cannot be before anyone waits.
    ///
    /// # Errors
    ///
    /// It cannot be.
    pub(super) fn check(&self) -> Result<(), Problem> {
        self.names.iter().try_for_each(|name| check::name(name))?;
        check::ttl(self.holding.ttl)?;
        check::label(self.holding.label.as_deref())?;
        self.grace(self.holding.ttl).map(drop)
    }

    /// Connects to the store, and refuses what would wait for itself.
    ///
    /// # Errors
    ///
    /// The store cannot be reached, a signal came, or a run around this one holds the lock.
    pub(super) async fn connect(&self, signals: &mut Signals) -> Result<Client, Problem> {
        let store = Store::find(self.global, self.talk)?;
        store.note(self.talk);
        // On the heap: what connects, over TLS too, is large.
        let ready = Box::pin(async {
            let client = store.connect().await?;
            refuse_nested(&client, self.names).await?;
            Ok(client)
        });
        match wait::unless_signalled(signals, ready).await {
            Ended::Done(client) => client,
            Ended::Signal(signal) => Err(wait::stopped(signal)),
        }
    }

    /// What people are told about the holder.
    pub(super) fn label(&self) -> String {
        let program = || {
            let program = self.holding.command.first();
            let program = program.map(|program| program.to_string_lossy());
            program.unwrap_or_default().chars().take(50).collect()
        };
        self.holding.label.clone().unwrap_or_else(program)
    }

    /// Takes what is wanted, runs the command, gives back what was taken.
    ///
    /// # Errors
    ///
    /// The command was not run.
    pub(super) async fn run(
        &self,
        client: &Client,
        want: &Want,
        signals: &mut Signals,
    ) -> Result<Outcome, Problem> {
        let (waiting, talk) = (self.holding.waiting, self.talk);
        let taking = want.take(waiting);
        let held = match wait::acquire(client, self.names, taking, waiting, signals, talk).await {
            Ok(held) => held,
            Err(problem) if problem.is_busy() => return self.busy(problem),
            Err(problem) => return Err(problem),
        };
        let options = self.options(&held)?;
        let environment = env::for_command(&held, self.names);
        let command: &[OsString] = &self.holding.command;
        match child::run(
            (client, &held),
            command,
            &environment,
            options,
            signals,
            talk,
        )
        .await
        {
            Ok(outcome) => Ok(give_back(held, outcome, signals, talk).await),
            Err(problem) => {
                let outcome = Outcome::of(problem.exit(Scheme::Run));
                give_back(held, outcome, signals, talk).await;
                Err(problem)
            }
        }
    }

    fn options(&self, held: &Held) -> Result<Options, Problem> {
        Ok(Options {
            // A store may have rounded the TTL up.
            grace: self.grace(held.ttl().get())?,
            on_lost: self.holding.on_lost,
            max_hold: self.holding.max_hold,
            format: self.global.log_format,
            quiet: self.global.quiet,
            nested: !env::held().is_empty(),
        })
    }

    fn grace(&self, ttl: Duration) -> Result<Duration, Problem> {
        plan::grace(self.holding.grace, ttl).map_err(|message| {
            Problem::usage(message).hint("without --grace it is a quarter of the TTL, at most 5s")
        })
    }

    /// It was not to be had in time. With `-E 0` that is as it should be, and no word is said.
    fn busy(&self, problem: Problem) -> Result<Outcome, Problem> {
        match self.holding.conflict_exit_code {
            None => Err(problem),
            Some(code) => {
                if code == 0 {
                    self.talk.say(Level::Info, &problem.message);
                } else {
                    self.talk.problem(&problem);
                }
                Ok(Outcome::of(Exit::code(code)))
            }
        }
    }
}

/// Refuses what would wait for itself: a run under a lock that a run around it holds.
async fn refuse_nested(client: &Client, names: &[String]) -> Result<(), Problem> {
    let around = env::held();
    if around.is_empty() {
        return Ok(());
    }
    for name in names {
        let holders = client.inspect(name).await?.holders;
        if holders.iter().any(|holder| around.contains(&holder.value)) {
            let message = format!(
                "lock {:?} is already held by a run around this one",
                escape(name)
            );
            return Err(Problem::usage(message)
                .hint("run the inner command without leasehold, or under another name"));
        }
    }
    Ok(())
}

/// Releases what is held, which a signal does not keep from being done.
async fn give_back(held: Held, outcome: Outcome, signals: &mut Signals, talk: &Talk) -> Outcome {
    if outcome.lost && held.guards().len() == 1 {
        return outcome;
    }
    let left = held.remaining();
    let mut release = std::pin::pin!(held.release());
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
                    // Said already, and the others are given back.
                    Err(_) if outcome.lost => {}
                    Err(error) if error.kind() == ErrorKind::Lost => {
                        talk.say(Level::Warning, error.to_string());
                        return Outcome { exit: Exit::LOST, lost: true, ..outcome };
                    }
                    Err(error) => {
                        talk.say(Level::Warning, format!("{error}; {}", unreleased(left)));
                    }
                }
                break;
            }
        }
    }
    let Some(signal) = signal else { return outcome };
    // Interrupted is never success.
    let exit = match outcome.exit {
        Exit::YES => Exit::signal(signal as i32),
        exit => exit,
    };
    Outcome {
        exit,
        told_to_end: true,
        ..outcome
    }
}

fn unreleased(left: Duration) -> String {
    let left = crate::duration::show(left);
    format!("the release is not confirmed, and the lock may stay taken for up to {left}")
}
