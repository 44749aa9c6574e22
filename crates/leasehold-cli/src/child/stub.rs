//! The process that becomes the command.
//!
//! It stops itself first and the wrapper lets it go on once the guard process watches over its
//! group: so the command never runs unwatched, and no descriptor has to be handed down for it.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt,
    process::Command,
};

use nix::{
    sys::signal::{Signal, raise},
    unistd::{Pid, getppid},
};

use crate::{
    exit::{Exit, Problem},
    output::{Format, Level, Talk, escape},
};

/// The first argument by which the binary knows that it is to be this.
pub(crate) const ARGUMENT: &str = "__stub";

/// Waits for the wrapper and becomes the command. Arguments: the wrapper's process id, how lines
/// on stderr look, the command, its arguments. Returns only if that was not possible.
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> Exit {
    let wrapper = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
    let format = match arguments.next() {
        Some(word) if word == Format::Json.word() => Format::Json,
        _ => Format::Text,
    };
    let (exit, reason) = match (wrapper, arguments.next()) {
        (Some(wrapper), Some(program)) => become_command(wrapper, &program, arguments),
        _ => (Exit::USAGE, "this subcommand is for internal use".into()),
    };
    let talk = Talk::new(Level::Error, format, None);
    talk.problem(&Problem::with_exit(exit, reason));
    talk.flush();
    exit
}

fn become_command(
    wrapper: i32,
    program: &OsStr,
    arguments: impl Iterator<Item = OsString>,
) -> (Exit, String) {
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
    let error = Command::new(program).args(arguments).exec();
    let exit = match error.kind() {
        io::ErrorKind::NotFound => Exit::NOT_FOUND,
        _ => Exit::NOT_EXECUTABLE,
    };
    (exit, refusal(program, &error))
}

/// What is said when `program` cannot be run.
pub(crate) fn refusal(program: &OsStr, error: &io::Error) -> String {
    format!("cannot run {}: {error}", escape(&program.to_string_lossy()))
}
