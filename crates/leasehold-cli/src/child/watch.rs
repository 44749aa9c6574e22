//! The guard process, as the wrapper sees it.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Command, Stdio},
    time::Duration,
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use tokio::{io::AsyncReadExt, net::unix::pipe, time::timeout};

use super::{group::Group, guard, plan::Plan, program};
use crate::output::Format;

/// What the guard process has to know from the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Duty {
    /// Whom it watches over.
    pub(crate) group: Group,
    /// How long after the wrapper's end the group may live; `None` to let it be.
    pub(crate) grace: Option<Duration>,
    /// How it writes; `None` for not at all.
    pub(crate) format: Option<Format>,
}

/// A running guard process.
#[derive(Debug)]
pub(crate) struct Watch {
    pid: Pid,
    orders: pipe::Sender,
    signs: pipe::Receiver,
    told: Option<Plan>,
}

impl Watch {
    /// Starts one and waits until it is ready, for `limit` at most. It keeps `session` open as
    /// long as the group is alive.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub(crate) async fn start(
        duty: Duty,
        session: Option<OwnedFd>,
        limit: Duration,
    ) -> io::Result<Self> {
        let mut command = Command::new(program());
        command
            .arg0("leasehold")
            .args([guard::ARGUMENT.into(), duty.group.id().to_string()])
            .args(guard::arguments(duty.grace, duty.format))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // Nothing else is started while the descriptor can be inherited: one thread starts all.
        if let Some(session) = &session {
            fcntl(session, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        let mut child = command.spawn()?;
        drop(session);
        let missing = || io::Error::other("no pipe to the guard process");
        let orders = child.stdin.take().ok_or_else(missing)?;
        let signs = child.stdout.take().ok_or_else(missing)?;
        let mut watch = Self {
            pid: super::pid_of(&child),
            orders: pipe::Sender::from_owned_fd(orders.into())?,
            signs: pipe::Receiver::from_owned_fd(signs.into())?,
            told: None,
        };
        let ready = async {
            watch.signs.read_u8().await?;
            watch.orders.writable().await
        };
        match timeout(limit, ready).await {
            Ok(Ok(())) => Ok(watch),
            Ok(Err(_)) | Err(_) => Err(io::Error::other("the guard process does not come up")),
        }
    }

    /// Its process id.
    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }

    /// Tells it the plan, unless it knows.
    pub(crate) fn tell(&mut self, plan: Plan) {
        if self.told == Some(plan) {
            return;
        }
        // So short a line is written whole or not at all. Not at all, if the guard is stopped and
        // the pipe full: then it is tried again at the next look.
        if self.orders.try_write(guard::order(plan).as_bytes()).is_ok() {
            self.told = Some(plan);
        }
    }

    /// Waits until it ends, which it does not do by itself.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is read that matters.
    pub(crate) async fn ended(&mut self) {
        while let Ok(read) = self.signs.read(&mut [0; 8]).await {
            if read == 0 {
                break;
            }
        }
        // Reaps it; the pipe closes a moment before the process has ended.
        for _ in 0..100 {
            if waitpid(self.pid, Some(WaitPidFlag::WNOHANG)) != Ok(WaitStatus::StillAlive) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Dismisses it: the group is gone.
    pub(crate) async fn dismiss(mut self) {
        let _ = self.orders.try_write(guard::DONE.as_bytes());
        if timeout(Duration::from_millis(500), self.ended())
            .await
            .is_err()
        {
            // Stopped, perhaps. There is nothing left to guard.
            let _ = kill(self.pid, Signal::SIGKILL);
            self.ended().await;
        }
    }
}
