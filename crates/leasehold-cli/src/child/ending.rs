//! When and how the wrapper ends the command.

use std::{io, time::Duration};

use leasehold::Loss;
use nix::sys::signal::Signal;

use super::{
    plan::Plan,
    supervise::{OnLost, Supervisor},
};
use crate::{
    duration::show,
    output::Level,
    time::{CLOCK, Instant},
};

impl Supervisor<'_> {
    /// What is to happen, as things are now.
    pub(super) fn plan(&self) -> Plan {
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

    /// Does what is due, and tells the guard process what will be.
    pub(super) fn act(&mut self) {
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
        // Again once it was killed, for what it was just starting.
        if now >= plan.kill || self.killed.is_some() {
            self.kill("the command did not end in time: killing it");
        }
        if let Some(watch) = &mut self.watch {
            watch.tell(plan);
        }
    }

    /// When `--max-hold` is over.
    pub(super) fn max_hold(&self) -> Option<Instant> {
        self.options.max_hold.map(|span| self.began.after(span))
    }

    /// Asks the command to end, on account of the lock.
    fn end(&mut self, why: String) {
        self.ending = Some(CLOCK.now());
        self.talk.say(Level::Warning, why);
        let signalled = self.command.group().ask_to_end();
        self.report(signalled);
    }

    fn kill(&mut self, why: &str) {
        if self.killed.is_none() {
            self.killed = Some(CLOCK.now());
            self.talk.say(Level::Warning, why);
        }
        let signalled = self.command.group().signal(Signal::SIGKILL);
        self.report(signalled);
    }

    /// Says, once, that the command could not be signalled.
    pub(super) fn report(&mut self, signalled: io::Result<()>) {
        if let Err(error) = signalled
            && !std::mem::replace(&mut self.said_unreachable, true)
        {
            let text = format!("cannot signal the command: {error}");
            self.talk.say(Level::Warning, text);
        }
    }

    /// The lock was lost.
    pub(super) fn on_loss(&mut self, loss: Loss) {
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

    /// Passes `signal` on to the command; the second INT kills it.
    pub(super) fn pass_on(&mut self, signal: Signal) {
        self.told_to_end |= matches!(
            signal,
            Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT
        );
        if signal == Signal::SIGINT && std::mem::replace(&mut self.interrupted, true) {
            self.kill("interrupted a second time: killing the command");
            return;
        }
        self.talk
            .say(Level::Info, format!("{signal} passed on to the command"));
        let signalled = self.command.group().signal(signal);
        self.report(signalled);
        if matches!(signal, Signal::SIGTERM | Signal::SIGHUP) {
            // What is stopped would not hear of it.
            let signalled = self.command.group().signal(Signal::SIGCONT);
            self.report(signalled);
        }
    }

    /// Whether there is nothing more to be done: the lock is lost, and killing does not help
    /// because a process hangs in the kernel or is another user's. A lock that is held is kept as
    /// long as anything of the command is there.
    pub(super) fn is_beyond_reach(&self) -> bool {
        const PATIENCE: Duration = Duration::from_secs(10);
        let killed_long_ago = self.killed.is_some_and(|at| CLOCK.now() - at > PATIENCE);
        let hopeless = killed_long_ago && self.lost.is_some();
        if hopeless {
            let text = "the command cannot be killed and may still be running";
            self.talk.say(Level::Warning, text);
        }
        hopeless
    }
}
