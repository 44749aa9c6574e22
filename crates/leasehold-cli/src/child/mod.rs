//! Running a command so that it ends before its lease can pass on.
//!
//! Three processes: this one, the *wrapper*, renews the lock and passes signals on; the command
//! is a process group of its own, started through a [`stub`]; the [`guard`] process ends the group
//! when the wrapper is killed or stopped.

use std::{ffi::OsString, path::PathBuf, process};

use nix::unistd::Pid;

pub(crate) use self::supervise::{OnLost, Options, Outcome, run};

pub(crate) mod guard;
pub(crate) mod plan;
pub(crate) mod stub;

mod command;
mod ending;
mod group;
mod jobs;
mod supervise;
mod terminal;
mod watch;

/// What starts this program once more. The path of the running file, not its name: it may have
/// been replaced since.
fn program() -> OsString {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return running.into();
    }
    std::env::current_exe()
        .unwrap_or_else(|_| "leasehold".into())
        .into()
}

fn pid_of(child: &process::Child) -> Pid {
    // Process ids are positive numbers of 31 bits; what is no such number names no process.
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}
