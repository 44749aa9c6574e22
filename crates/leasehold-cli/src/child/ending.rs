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
        if now >= plan.kill {
            self.kill("the command did not end in time: killing it");
        }
        if let Some(watch) = &mut self.watch {
            watch.tell(plan);
        }
    }

    pub(super) fn max_hold(&self) -> Option<Instant> {
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

    pub(super) fn report(&self, signalled: io::Result<()>) {
        if let Err(error) = signalled {
            self.talk.say(
                Level::Warning,
                format!("cannot signal the command: {error}"),
            );
        }
    }

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

    pub(super) fn pass_on(&mut self, signal: Signal) {
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

    /// Whether killing does not help: the process hangs in the kernel, or is another user's.
    pub(super) fn is_beyond_reach(&self) -> bool {
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
}
