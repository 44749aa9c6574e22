//! The gate: a lock of the operating system that every writer holds, one process at a time.
//!
//! SQLite has locks of its own, but whoever finds them taken sleeps and tries again, and some
//! processes then starve for seconds. The kernel queues those who wait for the gate.

use std::{
    fs::{File, OpenOptions},
    io::Read,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use super::{super::Failure, failure};

/// The gate, closed for the others while [`Gate::pass`] is held.
#[derive(Debug)]
pub(super) struct Gate {
    file: File,
    path: PathBuf,
}

/// Held inside the gate; dropping it opens the gate.
#[derive(Debug)]
pub(super) struct Pass<'a>(&'a File);

impl Gate {
    /// Opens the gate file, creating it when it is missing.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // Nobody makes this process write its id into another file.
            .custom_flags(no_follow())
            .open(path)
            .map_err(|error| failure::io("open", path, error))?;
        Ok(Self {
            file,
            path: path.into(),
        })
    }

    /// Waits for the gate without limit, and leaves this process's id in it for error messages.
    pub(super) fn pass(&self) -> Result<Pass<'_>, Failure> {
        self.file
            .lock()
            .map_err(|error| failure::io("lock", &self.path, error))?;
        let pass = Pass(&self.file);
        let id = format!("{:>10}\n", process::id());
        self.file
            .write_all_at(id.as_bytes(), 0)
            .map_err(|error| failure::io("write", &self.path, error))?;
        Ok(pass)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        // Unlocked rather than closed: a child between fork and exec may have the file open too.
        let _ = self.0.unlock();
    }
}

fn no_follow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()
}

/// The failure of a call that waited `limit` in vain for the gate at `path`.
pub(super) fn closed(path: &Path, limit: Duration) -> Failure {
    let gate = path.display();
    match last_to_pass(path) {
        Some(pid) if pid == process::id() => Failure::unavailable(format!(
            "waited {limit:?} for {gate} behind other calls of this process"
        )),
        Some(pid) => Failure::unavailable(format!(
            "waited {limit:?} for {gate}, last taken by process {pid}"
        ))
        .with_hint(format!(
            "is process {pid} stopped? look with: ps -o pid,stat,args {pid}"
        )),
        None => Failure::unavailable(format!("waited {limit:?} for {gate}")),
    }
}

fn last_to_pass(path: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(path)
        .ok()?
        .take(32)
        .read_to_string(&mut text)
        .ok()?;
    text.trim().parse().ok()
}
