//! A process group: whether anything of it is alive, and how to signal it.

use std::{fs, io};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// A process group, named by its leader.
///
/// The number cannot come to mean another group while the leader is not reaped, even when it is
/// dead: whoever reaps it does so last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group(Pid);

impl Group {
    /// The group of leader `pid`.
    pub(crate) const fn new(pid: Pid) -> Self {
        Self(pid)
    }

    /// The group's number, which is its leader's.
    pub(crate) const fn id(self) -> Pid {
        self.0
    }

    /// Sends `signal` to all of it. A group that is gone is no error.
    ///
    /// # Errors
    ///
    /// None of its processes may be signalled: they run as another user.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<()> {
        match killpg(self.0, signal) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Asks all of it to end: TERM, then CONT so that what is stopped hears it.
    ///
    /// # Errors
    ///
    /// As [`Group::signal`].
    pub(crate) fn ask_to_end(self) -> io::Result<()> {
        self.signal(Signal::SIGTERM)?;
        self.signal(Signal::SIGCONT)
    }

    /// How many of its processes are alive; zombies do not count.
    pub(crate) fn alive(self) -> usize {
        if killpg(self.0, None) == Err(Errno::ESRCH) {
            return 0;
        }
        // A process that forks and ends behind the reader's back can hide its child from one
        // look, hardly from two.
        match self.count() {
            Some(0) => self.count().unwrap_or(1),
            Some(count) => count,
            // Without /proc, a zombie counts as alive until it is reaped.
            None => 1,
        }
    }

    fn count(self) -> Option<usize> {
        let members = processes()?.filter(|process| process.group == self.0.as_raw());
        Some(members.filter(|process| !process.is_zombie()).count())
    }
}

/// What `/proc` says about one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    group: i32,
    state: char,
}

impl Process {
    /// Whether it has ended and waits to be reaped.
    pub(crate) const fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Reads a line of `/proc/<pid>/stat`: pid, name in parentheses, state, parent, group. The
    /// name may have parentheses and spaces itself.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, _) = stat.split_once(' ')?;
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        Some(Self {
            pid: pid.parse().ok()?,
            parent,
            group,
            state,
        })
    }
}

/// All processes this one can see; `None` where there is no `/proc`.
pub(crate) fn processes() -> Option<impl Iterator<Item = Process>> {
    fs::metadata("/proc/self/stat").ok()?;
    let entries = fs::read_dir("/proc").ok()?;
    Some(entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let is_pid = entry
            .file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit);
        let stat = is_pid.then(|| fs::read(entry.path().join("stat")).ok())??;
        Process::parse(&String::from_utf8_lossy(&stat))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_process_names_do_not_confuse() {
        let stat = "4211 (a) Z 1 (b) R 17 4200 4100 0 -1";
        let process = Process::parse(stat).expect("well formed");
        assert_eq!(
            (process.pid, process.parent, process.group),
            (4211, 17, 4200)
        );
        assert!(!process.is_zombie());
        assert_eq!(Process::parse(""), None);
    }

    #[test]
    fn a_group_that_nobody_is_in_is_empty() {
        assert_eq!(Group::new(Pid::from_raw(i32::MAX)).alive(), 0);
        assert!(Group::new(nix::unistd::getpgrp()).alive() > 0);
    }
}
