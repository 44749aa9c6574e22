//! The wrapper at work: renewed or not, the command ends before its lease can pass on.

use std::{ffi::OsString, io, time::Duration};

use leasehold::{Client, Loss};
use nix::sys::signal::Signal;

use super::{
    command::{Command, reap_orphans},
    group::Group,
    stub,
    terminal::{Job, Jobs, Terminal},
    watch::{Duty, Watch},
};
use crate::{
    exit::{Exit, Problem},
    held::Held,
    output::{Format, Level, Talk},
    signals::Signals,
    time::{CLOCK, Instant},
};

/// What to do when the lock is lost or about to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnLost {
    /// End the command.
    Term,
    /// Only say so.
    Warn,
}

/// How a command is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// How long before the deadline the command is asked to end.
    pub(crate) grace: Duration,
    /// What a loss leads to.
    pub(crate) on_lost: OnLost,
    /// How long the lock may be held.
    pub(crate) max_hold: Option<Duration>,
    /// How lines on stderr look.
    pub(crate) format: Format,
    /// Whether the guard process keeps silent.
    pub(crate) quiet: bool,
    /// Whether another run is around this one.
    pub(crate) nested: bool,
}

/// How it went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// The exit status of the wrapper.
    pub(crate) exit: Exit,
    /// Whether it was lost, or a part of it.
    pub(crate) lost: bool,
    /// Whether a signal asked for the end of it all.
    pub(crate) told_to_end: bool,
}

impl Outcome {
    /// The wrapper ends with `exit`, of its own accord.
    pub(crate) const fn of(exit: Exit) -> Self {
        Self {
            exit,
            lost: false,
            told_to_end: false,
        }
    }
}

/// Runs `command` under `lease` until all of its process group has ended.
///
/// # Errors
///
/// It was not started.
pub(crate) async fn run(
    (client, lease): (&Client, &Held),
    command: &[OsString],
    environment: &[(&str, OsString)],
    options: Options,
    signals: &mut Signals,
    talk: &Talk,
) -> Result<Outcome, Problem> {
    let jobs = Jobs::install().map_err(|error| cannot("watch the terminal", &error))?;
    let command = Command::prepare(command, environment, options.format)
        .await
        .map_err(|error| match (error.kind(), command.first()) {
            (io::ErrorKind::ArgumentListTooLong, Some(program)) => {
                Problem::with_exit(Exit::NOT_EXECUTABLE, stub::refusal(program, &error))
            }
            _ => cannot("start a process for the command", &error),
        })?;
    let duty = options.duty(command.group());
    let watch = match Watch::start(duty, client.session(), Duration::from_secs(5)).await {
        Ok(watch) => watch,
        Err(error) => {
            command.abandon();
            return Err(cannot("start the guard process", &error));
        }
    };
    let mut supervisor = Supervisor {
        lease,
        options,
        command,
        duty,
        watch: Some(watch),
        terminal: Terminal::open(),
        jobs,
        signals,
        talk,
        began: CLOCK.now(),
        ending: None,
        killed: None,
        lost: None,
        interrupted: false,
        told_to_end: false,
        leader_gone: None,
        said_waiting: false,
        said_unreachable: false,
    };
    supervisor.start()?;
    supervisor.supervise(client).await;
    Ok(supervisor.finish().await)
}

fn cannot(what: &str, error: &io::Error) -> Problem {
    Problem::usage(format!("cannot {what}: {error}"))
        .hint("the system may be out of processes or memory; the command was not run")
}

impl Options {
    /// What the guard process of `group` has to know.
    fn duty(self, group: Group) -> Duty {
        // A nested wrapper is killed by the run around it, whose deadline leaves no time.
        let grace = if self.nested {
            Duration::ZERO
        } else {
            self.grace
        };
        Duty {
            group,
            grace: (self.on_lost == OnLost::Term).then_some(grace),
            format: (!self.quiet).then_some(self.format),
        }
    }
}

/// A command, its lease, and what happened to them so far.
pub(super) struct Supervisor<'a> {
    pub(super) lease: &'a Held,
    pub(super) options: Options,
    pub(super) command: Command,
    pub(super) duty: Duty,
    /// The guard process; `None` when it ended and no other could be started.
    pub(super) watch: Option<Watch>,
    pub(super) terminal: Terminal,
    pub(super) jobs: Jobs,
    pub(super) signals: &'a mut Signals,
    pub(super) talk: &'a Talk,
    /// When the command began.
    pub(super) began: Instant,
    /// When it was asked to end on account of the lock.
    pub(super) ending: Option<Instant>,
    /// When it was killed first.
    pub(super) killed: Option<Instant>,
    /// Why the lock was lost.
    pub(super) lost: Option<Loss>,
    /// One INT was passed on already.
    pub(super) interrupted: bool,
    /// A signal that was passed on asked for the end.
    pub(super) told_to_end: bool,
    /// When the command itself ended; others of its group may live on.
    pub(super) leader_gone: Option<Instant>,
    /// It was said that others of the group are waited for.
    pub(super) said_waiting: bool,
    /// It was said that the command cannot be signalled.
    pub(super) said_unreachable: bool,
}

enum Event {
    Signal(Signal),
    Lost(Loss),
    WatchEnded,
    Job(Job),
    Look,
}

impl Supervisor<'_> {
    /// Lets the command begin, if the lock is still held.
    fn start(&mut self) -> Result<(), Problem> {
        let plan = self.plan();
        if let Some(watch) = &mut self.watch {
            watch.tell(plan);
        }
        self.terminal
            .give_if_it_cannot_be_asked_for(self.command.group());
        let held = self.lease.check().map_err(Problem::from);
        let begun = held.and_then(|()| {
            let gone = |error| Problem::usage(format!("cannot start the command: {error}"));
            self.command.go().map_err(gone)
        });
        if begun.is_err() {
            self.command.abandon();
        }
        begun
    }

    async fn supervise(&mut self, client: &Client) {
        loop {
            self.look_at_command().await;
            if self.is_over() {
                return;
            }
            self.act();
            let wake = self.wake();
            match self.next(wake).await {
                Event::Signal(signal) => self.pass_on(signal),
                Event::Lost(loss) => self.on_loss(loss),
                Event::WatchEnded => self.replace_watch(client).await,
                Event::Job(Job::User(signal)) => self.pass_on(signal),
                Event::Job(Job::Stop) => {
                    let _ = self.command.group().signal(Signal::SIGTSTP);
                    self.suspend(false).await;
                }
                Event::Look => {}
            }
        }
    }

    async fn next(&mut self, wake: Instant) -> Event {
        let clock = CLOCK;
        let Self {
            lease,
            command,
            watch,
            jobs,
            signals,
            lost,
            ..
        } = self;
        let watch_ended = async {
            match watch {
                Some(watch) => watch.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            signal = signals.next() => Event::Signal(signal),
            loss = lease.lost(), if lost.is_none() => Event::Lost(loss),
            () = watch_ended => Event::WatchEnded,
            job = jobs.next() => Event::Job(job),
            () = command.event() => Event::Look,
            () = clock.sleep_until(wake) => Event::Look,
        }
    }

    async fn look_at_command(&mut self) {
        let own = [
            Some(self.command.group().id()),
            self.watch.as_ref().map(Watch::pid),
        ];
        reap_orphans(&own);
        if let Some(signal) = self.command.stop() {
            self.on_stop(signal).await;
        }
        if self.command.exit().is_some() && self.leader_gone.is_none() {
            self.leader_gone = Some(CLOCK.now());
        }
    }

    /// Whether there is nothing left to wait for.
    fn is_over(&mut self) -> bool {
        let Some(gone) = self.leader_gone else {
            return self.is_beyond_reach();
        };
        let others = self.command.group().alive();
        if others == 0 {
            return true;
        }
        if !self.said_waiting && CLOCK.now() - gone >= Duration::from_secs(1) {
            self.said_waiting = true;
            let (s, them) = if others == 1 {
                ("", "it ends")
            } else {
                ("es", "they end")
            };
            self.talk.say(
                Level::Note,
                format!(
                    "the command ended; waiting for {others} other process{s} of its group, \
                    and holding the lock until {them}"
                ),
            );
        }
        self.is_beyond_reach()
    }

    /// When to look again though nothing was heard.
    fn wake(&self) -> Instant {
        let now = CLOCK.now();
        let idle = (self.lease.ttl().get() / 20)
            .clamp(Duration::from_millis(5), Duration::from_millis(200));
        // Looking through all processes costs: often at first, then less so.
        let tick = match self.killed.or(self.leader_gone) {
            Some(gone) => ((now - gone) / 8).clamp(Duration::from_millis(2), idle),
            None => idle,
        };
        let plan = self.plan();
        let due = [
            Some(plan.term),
            Some(plan.kill),
            self.max_hold().filter(|_| self.ending.is_none()),
        ];
        let due = due.into_iter().flatten().filter(|&at| at > now).min();
        now.after(tick).min(due.unwrap_or(Instant::MAX))
    }

    async fn replace_watch(&mut self, client: &Client) {
        self.watch = None;
        self.talk
            .say(Level::Warning, "the guard process ended: starting another");
        let limit = Duration::from_millis(500);
        match Watch::start(self.duty, client.session(), limit).await {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => {
                self.talk.say(
                    Level::Warning,
                    format!("no guard process any more: {error}"),
                );
            }
        }
    }

    async fn finish(mut self) -> Outcome {
        let exit = self.command.exit();
        self.terminal
            .take_back(self.command.group(), self.killed.is_some());
        if exit.is_some() {
            if let Some(watch) = self.watch.take() {
                watch.dismiss().await;
            }
            self.command.reap();
        }
        let on_account_of_lock = self.ending.is_some() || self.lost.is_some();
        Outcome {
            exit: exit.filter(|_| !on_account_of_lock).unwrap_or(Exit::LOST),
            lost: self.lost.is_some(),
            told_to_end: self.told_to_end,
        }
    }
}
