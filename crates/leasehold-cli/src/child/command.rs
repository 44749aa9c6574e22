//! The command: started through the stub, watched, reaped last.

use std::{ffi::OsString, io, os::unix::process::CommandExt, process, time::Duration};

use nix::{
    sys::{
        signal::Signal,
        wait::{WaitPidFlag, waitpid},
    },
    unistd::{Pid, getpid},
};
use rustix::process::{WaitId, WaitIdOptions, WaitIdStatus, waitid};
use tokio::{signal::unix, time::timeout};

use super::{
    group::{Group, processes},
    pid_of, program, stub,
};
use crate::{exit::Exit, output::Format};

/// A command in a process group of its own.
#[derive(Debug)]
pub(crate) struct Command {
    group: Group,
    events: unix::Signal,
    exit: Option<Exit>,
}

impl Command {
    /// Starts the stub of `command`, which waits until [`Command::go`].
    ///
    /// # Errors
    ///
    /// No process can be started.
    pub(crate) async fn prepare(
        command: &[OsString],
        environment: &[(&str, OsString)],
        format: Format,
    ) -> io::Result<Self> {
        let events = unix::signal(unix::SignalKind::child())?;
        let child = process::Command::new(program())
            .arg0("leasehold")
            .arg(stub::ARGUMENT)
            .arg(process::id().to_string())
            .arg(format.word())
            .args(command)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .spawn()?;
        let mut prepared = Self {
            group: Group::new(pid_of(&child)),
            events,
            exit: None,
        };
        match timeout(Duration::from_secs(10), prepared.stopped()).await {
            Ok(true) => Ok(prepared),
            Ok(false) | Err(_) => {
                prepared.abandon();
                Err(io::Error::other("the command's process does not come up"))
            }
        }
    }

    /// Lets the stub become the command.
    ///
    /// # Errors
    ///
    /// The stub is gone.
    pub(crate) fn go(&self) -> io::Result<()> {
        self.group.signal(Signal::SIGCONT)
    }

    /// Ends what has not become the command yet.
    pub(crate) fn abandon(&self) {
        let _ = self.group.signal(Signal::SIGKILL);
        let _ = waitpid(self.group.id(), None);
    }

    /// Its process group.
    pub(crate) const fn group(&self) -> Group {
        self.group
    }

    /// How it ended, once it has. Others of its group may be alive.
    pub(crate) fn exit(&mut self) -> Option<Exit> {
        if self.exit.is_none() {
            // Looks without reaping: the group's number stays taken.
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            self.exit = self.look(look).map(|status| {
                match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => Exit::code(u8::try_from(code).unwrap_or(u8::MAX)),
                    (None, signal) => Exit::signal(signal.unwrap_or(0)),
                }
            });
        }
        self.exit
    }

    /// The signal that stopped it, if it was stopped since the last question.
    pub(crate) fn stop(&self) -> Option<Signal> {
        let number = self.look(WaitIdOptions::STOPPED)?.stopping_signal()?;
        Signal::try_from(number).ok()
    }

    fn look(&self, what: WaitIdOptions) -> Option<WaitIdStatus> {
        let leader = rustix::process::Pid::from_raw(self.group.id().as_raw())?;
        waitid(WaitId::Pid(leader), what | WaitIdOptions::NOHANG)
            .ok()
            .flatten()
    }

    /// Waits until something may have happened to a child of this process.
    ///
    /// # Cancel safety
    ///
    /// Safe: what happened can still be asked for.
    pub(crate) async fn event(&mut self) {
        self.events.recv().await;
    }

    /// Reaps it, at the very end.
    pub(crate) fn reap(self) {
        let _ = waitpid(self.group.id(), Some(WaitPidFlag::WNOHANG));
    }

    async fn stopped(&mut self) -> bool {
        loop {
            if self.stop().is_some() {
                return true;
            }
            if self.exit().is_some() {
                return false;
            }
            self.events.recv().await;
        }
    }
}

/// As process 1, reaps what nobody else does. `own` are this program's children.
pub(crate) fn reap_orphans(own: &[Option<Pid>]) {
    if getpid() != Pid::from_raw(1) {
        return;
    }
    let orphans = processes().into_iter().flatten().filter(|process| {
        process.parent == 1
            && process.is_zombie()
            && !own.contains(&Some(Pid::from_raw(process.pid)))
    });
    for orphan in orphans {
        let _ = waitpid(Pid::from_raw(orphan.pid), Some(WaitPidFlag::WNOHANG));
    }
}
