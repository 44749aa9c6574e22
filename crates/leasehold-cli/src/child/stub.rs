//! The process that becomes the command.
//!
//! It stops itself first and the wrapper lets it go on once the guard process watches over its
//! group: so the command never runs unwatched, and no descriptor has to be handed down for it.

use std::{ffi::OsString, io, os::unix::process::CommandExt, process::Command};

use nix::{
    sys::signal::{Signal, raise},
    unistd::{Pid, getppid},
};

use crate::{exit::Exit, output::escape};

/// The first argument by which the binary knows that it is to be this.
pub(crate) const ARGUMENT: &str = "__stub";

/// Waits for the wrapper and becomes the command. Arguments: the wrapper's process id, the
/// command, its arguments. Returns only if that was not possible, with the status and the reason.
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> (Exit, String) {
    let wrapper = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
    let (Some(wrapper), Some(program)) = (wrapper, arguments.next()) else {
        return (Exit::USAGE, "this subcommand is for internal use".into());
    };
    if let Err(errno) = raise(Signal::SIGSTOP) {
        return (Exit::USAGE, format!("cannot wait for the wrapper: {errno}"));
    }
    // When the wrapper dies, the kernel wakes its stopped orphans, or the guard process does.
    if getppid() != Pid::from_raw(wrapper) {
        return (
            Exit::LOST,
            "the wrapper ended before the command was started".into(),
        );
    }
    let error = Command::new(&program).args(arguments).exec();
    let exit = match error.kind() {
        io::ErrorKind::NotFound => Exit::NOT_FOUND,
        _ => Exit::NOT_EXECUTABLE,
    };
    let program = escape(&program.to_string_lossy());
    (exit, format!("cannot run {program}: {error}"))
}
