//! A child process that cannot outlive this one.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Started under a shell that waits for the end of its input, which comes when this process drops
/// the pipe or ends, and then kills the child: a killed test leaves no server behind.
const KEEPER: &str = r#""$@" </dev/null >/dev/null 2>&1 & echo $!; read _; kill -9 $!; wait $!
case $0 in /*) rm -rf "$0";; esac"#;

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Leash {
    keeper: Child,
    /// Held open for as long as the child is to live.
    hold: Option<ChildStdin>,
    pid: Pid,
}

impl Leash {
    pub(super) fn start<S: AsRef<OsStr>>(program: &Path, arguments: &[S], folder: &Path) -> Self {
        Self::start_as("keeper".as_ref(), program, arguments, folder)
    }

    /// As [`Leash::start`], and the folder goes with the process: for one in a `static`, which is
    /// never dropped.
    pub(super) fn start_with_folder<S: AsRef<OsStr>>(
        program: &Path,
        arguments: &[S],
        folder: &Path,
    ) -> Self {
        Self::start_as(folder, program, arguments, folder)
    }

    fn start_as<S: AsRef<OsStr>>(
        zero: &Path,
        program: &Path,
        arguments: &[S],
        folder: &Path,
    ) -> Self {
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER])
            .args([zero, program])
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell can be started");
        let hold = keeper.stdin.take();
        let mut line = String::new();
        let told = keeper.stdout.take().expect("its output is a pipe");
        BufReader::new(told)
            .read_line(&mut line)
            .expect("the shell tells the process id");
        let pid = Pid::from_raw(line.trim().parse().expect("a process id"));
        Self { keeper, hold, pid }
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    pub(super) fn signal(&self, signal: Signal) {
        // The shell has not waited for the child, so the number is still the child's.
        kill(self.pid, signal).expect("the process is there");
    }

    /// Whether the child is there, running or stopped, and not only its remains.
    pub(super) fn is_alive(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        drop(self.hold.take());
        let _ = self.keeper.wait();
    }
}
