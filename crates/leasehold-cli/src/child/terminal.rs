//! Whose terminal it is.
//!
//! The command gets the terminal when it asks for it: when it reads from it or changes its modes
//! as a background job, the kernel stops it, and the wrapper makes it the foreground job and lets
//! it go on. Until then Ctrl-C reaches the wrapper, which passes it on, and a pager at the end of
//! `leasehold run ... | less` keeps its keyboard.

use std::{
    fs::{File, OpenOptions},
    io,
    time::Duration,
};

use nix::{
    sys::{
        signal::{Signal, killpg},
        termios::{SetArg, Termios, tcgetattr, tcsetattr},
    },
    unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp},
};
use tokio::{
    signal::unix::{self, SignalKind},
    time::timeout,
};

use super::group::Group;
use crate::signals::is_ignored;

/// The controlling terminal, if there is one.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: Option<File>,
    own: Pid,
    given: bool,
    modes: Option<Termios>,
}

impl Terminal {
    /// The terminal of this process. Whoever calls this has to have TTOU blocked.
    pub(crate) fn open() -> Self {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .ok();
        let modes = device.as_ref().and_then(|device| tcgetattr(device).ok());
        Self {
            device,
            own: getpgrp(),
            given: false,
            modes,
        }
    }

    /// Whether this process is in the foreground.
    pub(crate) fn is_ours(&self) -> bool {
        self.foreground() == Some(self.own)
    }

    /// Whether the command has it.
    pub(crate) const fn is_given(&self) -> bool {
        self.given
    }

    /// Makes `group` the foreground job, if this process is.
    pub(crate) fn give(&mut self, group: Group) -> bool {
        let ours = self.is_ours();
        if let (true, Some(device)) = (ours, &self.device) {
            self.given = tcsetpgrp(device, group.id()).is_ok();
        }
        ours && self.given
    }

    /// Gives it to `group` at once where the kernel would not stop who reads from it: where this
    /// program was started with TTIN ignored, and so is the command, reading would fail.
    pub(crate) fn give_if_it_cannot_be_asked_for(&mut self, group: Group) {
        if is_ignored(Signal::SIGTTIN) {
            self.give(group);
        }
    }

    /// Takes it back from `group`, if that still has it. `restore` the modes it had, when the
    /// command had no chance to.
    pub(crate) fn take_back(&mut self, group: Group, restore: bool) {
        if !self.given {
            return;
        }
        self.given = false;
        let theirs = self.foreground() == Some(group.id());
        if let (true, Some(device)) = (theirs, &self.device) {
            let _ = tcsetpgrp(device, self.own);
            if let (true, Some(modes)) = (restore, &self.modes) {
                let _ = tcsetattr(device, SetArg::TCSADRAIN, modes);
            }
        }
    }

    /// Stops this process as a job, the rest of its pipeline included. The kernel does nothing if
    /// there is no shell to continue it: that is why it is TTIN and not STOP.
    pub(crate) fn suspend(&self) {
        let _ = killpg(self.own, Signal::SIGTTIN);
    }

    fn foreground(&self) -> Option<Pid> {
        self.device
            .as_ref()
            .and_then(|device| tcgetpgrp(device).ok())
    }
}

/// What a shell's job control sends, and the signals that mean what the command makes of them.
#[derive(Debug)]
pub(crate) struct Jobs {
    stop: Option<unix::Signal>,
    resume: unix::Signal,
    user: [unix::Signal; 2],
}

/// What came.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    /// This process is to stop.
    Stop,
    /// The command is to have this signal.
    User(Signal),
}

impl Jobs {
    /// Receives it from now on.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub(crate) fn install() -> io::Result<Self> {
        let stop = || unix::signal(SignalKind::from_raw(Signal::SIGTSTP as i32));
        Ok(Self {
            stop: (!is_ignored(Signal::SIGTSTP)).then(stop).transpose()?,
            resume: unix::signal(SignalKind::from_raw(Signal::SIGCONT as i32))?,
            user: [
                unix::signal(SignalKind::user_defined1())?,
                unix::signal(SignalKind::user_defined2())?,
            ],
        })
    }

    /// Waits until something comes.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub(crate) async fn next(&mut self) -> Job {
        let Self { stop, user, .. } = self;
        let [first, second] = user;
        let stop = async {
            match stop {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = stop => Job::Stop,
            _ = first.recv() => Job::User(Signal::SIGUSR1),
            _ = second.recv() => Job::User(Signal::SIGUSR2),
        }
    }

    /// Waits, after having stopped, until this process is continued. Where nothing could stop it,
    /// that is soon.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub(crate) async fn resumed(&mut self) {
        let _ = timeout(Duration::from_millis(200), self.resume.recv()).await;
    }
}
