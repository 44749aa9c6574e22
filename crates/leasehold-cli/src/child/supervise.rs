//! The wrapper at work: renewed or not, the command ends before its lease can pass on.

use std::{ffi::OsString, time::Duration};

use leasehold::{Client, Guard, Loss};
use nix::sys::signal::Signal;

use super::{
    command::{Command, reap_orphans},
    plan::Plan,
    terminal::{Job, Jobs, Terminal},
    watch::{Duty, Watch},
};
use crate::{
    duration::show,
    exit::{Exit, Problem},
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
    /// How the guard process writes; `None` for not at all.
    pub(crate) format: Option<Format>,
}

/// How it went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// The exit status of the wrapper.
    pub(crate) exit: Exit,
    /// Whether there is nothing to release any more.
    pub(crate) lost: bool,
}

/// Runs `command` under `lease` until all of its process group has ended.
///
/// # Errors
///
/// It was not started.
pub(crate) async fn run(
    (client, lease): (&Client, &Guard),
    command: &[OsString],
    environment: &[(&str, OsString)],
    options: Options,
    signals: &mut Signals,
    talk: &Talk,
) -> Result<Outcome, Problem> {
    let cannot = |what: &str, error: std::io::Error| {
        Problem::usage(format!("cannot start {what}: {error}"))
            .hint("the system may be out of processes or memory; the command was not run")
    };
    let jobs = Jobs::install().map_err(|error| cannot("to watch the terminal", error))?;
    let command = Command::prepare(command, environment)
        .await
        .map_err(|error| cannot("a process for the command", error))?;
    let duty = Duty {
        group: command.group(),
        grace: (options.on_lost == OnLost::Term).then_some(options.grace),
        format: options.format,
    };
    let watch = match Watch::start(duty, client.session()).await {
        Ok(watch) => watch,
        Err(error) => {
            command.abandon();
            return Err(cannot("the guard process", error));
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
        leader_gone: None,
        said_waiting: false,
    };
    supervisor.start()?;
    supervisor.supervise(client).await;
    Ok(supervisor.finish().await)
}

struct Supervisor<'a> {
    lease: &'a Guard,
    options: Options,
    command: Command,
    duty: Duty,
    watch: Option<Watch>,
    terminal: Terminal,
    jobs: Jobs,
    signals: &'a mut Signals,
    talk: &'a Talk,
    began: Instant,
    /// When the command was asked to end on account of the lock.
    ending: Option<Instant>,
    /// When it was killed first.
    killed: Option<Instant>,
    lost: Option<Loss>,
    interrupted: bool,
    leader_gone: Option<Instant>,
    said_waiting: bool,
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

    /// What is to happen, as things are now.
    fn plan(&self) -> Plan {
        let spared = self.options.on_lost == OnLost::Warn;
        let plan = if spared {
            Plan::NEVER
        } else {
            Plan::before(self.lease.deadline(), self.options.grace)
        };
        match self.ending {
            Some(asked) => plan.ending(asked, self.options.grace),
            None => plan,
        }
    }

    fn act(&mut self) {
        let (now, plan) = (CLOCK.now(), self.plan());
        if self.ending.is_none() {
            if now >= plan.term {
                let left = show(self.lease.deadline() - now);
                self.end(format!(
                    "the lock lasts {left} more and is not renewed: ending the command"
                ));
            } else if self.max_hold().is_some_and(|limit| now >= limit) {
                self.end("--max-hold is over: ending the command".into());
            }
        }
        let plan = self.plan();
        if now >= plan.kill {
            self.kill("the command did not end in time: killing it");
        }
        if let Some(watch) = &mut self.watch {
            watch.tell(plan);
        }
    }

    fn max_hold(&self) -> Option<Instant> {
        self.options.max_hold.map(|span| self.began.after(span))
    }

    /// Asks the command to end, on account of the lock.
    fn end(&mut self, why: String) {
        self.ending = Some(CLOCK.now());
        self.talk.say(Level::Warning, why);
        self.report(self.command.group().ask_to_end());
    }

    fn kill(&mut self, why: &str) {
        if self.killed.is_none() {
            self.killed = Some(CLOCK.now());
            self.talk.say(Level::Warning, why);
        }
        // Again and again: it may have been forking.
        self.report(self.command.group().signal(Signal::SIGKILL));
    }

    fn report(&self, signalled: std::io::Result<()>) {
        if let Err(error) = signalled {
            self.talk.say(
                Level::Warning,
                format!("cannot signal the command: {error}"),
            );
        }
    }

    fn on_loss(&mut self, loss: Loss) {
        self.lost = Some(loss);
        match self.options.on_lost {
            OnLost::Warn => {
                self.talk.say(
                    Level::Warning,
                    "the command goes on without the lock (--on-lost warn)",
                );
            }
            OnLost::Term if self.ending.is_none() && self.command.group().alive() > 0 => {
                self.end("ending the command".into());
            }
            OnLost::Term => {}
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        if signal == Signal::SIGINT && std::mem::replace(&mut self.interrupted, true) {
            self.kill("interrupted a second time: killing the command");
            return;
        }
        self.talk
            .say(Level::Info, format!("{signal} passed on to the command"));
        self.report(self.command.group().signal(signal));
        if matches!(signal, Signal::SIGTERM | Signal::SIGHUP) {
            // What is stopped would not hear of it.
            self.report(self.command.group().signal(Signal::SIGCONT));
        }
    }

    async fn look_at_command(&mut self) {
        let kept = [
            Some(self.command.group().id()),
            self.watch.as_ref().map(Watch::pid),
        ];
        reap_orphans(&kept.map(|pid| pid.unwrap_or(self.command.group().id())));
        if let Some(signal) = self.command.stop() {
            self.on_stop(signal).await;
        }
        if self.command.exit().is_some() && self.leader_gone.is_none() {
            self.leader_gone = Some(CLOCK.now());
        }
    }

    /// The command was stopped. If it was for using the terminal, it gets it.
    async fn on_stop(&mut self, signal: Signal) {
        let group = self.command.group();
        match signal {
            Signal::SIGTTIN | Signal::SIGTTOU => {
                if self.terminal.give(group) {
                    self.report(group.signal(Signal::SIGCONT));
                } else {
                    self.suspend(true).await;
                }
            }
            Signal::SIGTSTP if self.terminal.is_given() => self.suspend(true).await,
            _ => self
                .talk
                .say(Level::Info, format!("the command was stopped by {signal}")),
        }
    }

    /// Stops as a job, and goes on with the command when the shell says so.
    async fn suspend(&mut self, wants_terminal: bool) {
        let group = self.command.group();
        let left = show(self.lease.remaining());
        self.terminal.take_back(group, false);
        self.talk.say(
            Level::Warning,
            format!(
                "suspended and not renewing: the command is ended unless it goes on within {left}"
            ),
        );
        self.talk.flush();
        self.terminal.suspend();
        self.jobs.resumed().await;
        if wants_terminal {
            self.terminal.give(group);
        }
        self.report(group.signal(Signal::SIGCONT));
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

    /// Whether killing does not help: the process hangs in the kernel, or is another user's.
    fn is_beyond_reach(&self) -> bool {
        let patience = Duration::from_secs(10);
        let hopeless = self.killed.is_some_and(|at| CLOCK.now() - at > patience);
        if hopeless {
            self.talk.say(
                Level::Warning,
                "the command cannot be killed and may still be running",
            );
        }
        hopeless
    }

    /// When to look again though nothing was heard.
    fn wake(&self) -> Instant {
        let now = CLOCK.now();
        let idle = (self.lease.ttl().get() / 20)
            .clamp(Duration::from_millis(5), Duration::from_millis(200));
        let tick = match (self.killed, self.leader_gone) {
            (Some(_), _) => Duration::from_millis(20),
            // Looking through all processes costs: often at first, then less so.
            (None, Some(gone)) => ((now - gone) / 8).clamp(Duration::from_millis(2), idle),
            (None, None) => idle,
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
        match Watch::start(self.duty, client.session()).await {
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
            lost: self.lost.is_some() || exit.is_none(),
        }
    }
}
