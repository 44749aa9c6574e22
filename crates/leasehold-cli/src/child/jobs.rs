//! The command and the terminal's job control.

use nix::sys::signal::Signal;

use super::supervise::Supervisor;
use crate::{duration::show, output::Level};

impl Supervisor<'_> {
    /// The command was stopped. If it was for using the terminal, it gets it.
    pub(super) async fn on_stop(&mut self, signal: Signal) {
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
    pub(super) async fn suspend(&mut self, wants_terminal: bool) {
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
}
