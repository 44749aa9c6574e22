//! Sessions: whether the process behind an entry still lives.
//!
//! Each open store holds an operating-system lock on a file of its own. The kernel drops it
//! when the process ends, however it ends; process ids would not do, for they are re-used and mean
//! nothing across containers.

use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use leasehold_core::entry::{Crowd, Waiter};

use super::{super::Failure, failure, post};
use crate::random::Random;

/// How many files of dead sessions one opening of the store removes.
const SWEEP: usize = 256;

/// This process's session: alive until it is dropped and every copy of its descriptor is closed.
#[derive(Debug)]
pub(super) struct Session {
    id: Arc<str>,
    lock: File,
    directory: PathBuf,
    shared: AtomicBool,
}

impl Session {
    /// Begins a session in `directory`. To be called inside the gate: between the creation of its
    /// file and its locking it looks dead to those who sweep.
    pub(super) fn begin(directory: &Path, random: &Random) -> Result<Self, Failure> {
        DirBuilder::new()
            .recursive(true)
            .create(directory)
            .map_err(|error| failure::io("create", directory, error))?;
        let (id, path, lock) = loop {
            let id: Arc<str> = format!("{:016x}", random.bits()).into();
            let path = lock_path(directory, &id);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(lock) => break (id, path, lock),
                // Two that were given the same seed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failure::io("create", &path, error)),
            }
        };
        lock.lock()
            .map_err(|error| failure::io("lock", &path, error))?;
        Ok(Self {
            id,
            lock,
            directory: directory.into(),
            shared: AtomicBool::new(false),
        })
    }

    pub(super) fn id(&self) -> &Arc<str> {
        &self.id
    }

    pub(super) fn identity(&self) -> Option<Identity> {
        self.lock.metadata().ok().map(identity)
    }

    /// A descriptor that keeps the session alive while any process has it open.
    pub(super) fn share(&self) -> io::Result<OwnedFd> {
        self.shared.store(true, Ordering::SeqCst);
        Ok(self.lock.try_clone()?.into())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = fs::remove_file(socket_path(&self.directory, &self.id));
        // One that was shared may live on; whoever opens the store later finds out and removes it.
        if !self.shared.load(Ordering::SeqCst) {
            let _ = fs::remove_file(lock_path(&self.directory, &self.id));
        }
    }
}

/// Tells living sessions from dead ones; remembers its answers, so it is for one look at the store.
#[derive(Debug)]
pub(super) struct Sessions<'a> {
    directory: &'a Path,
    own: Option<&'a str>,
    known: HashMap<Box<str>, bool>,
}

impl<'a> Sessions<'a> {
    pub(super) fn new(directory: &'a Path) -> Self {
        Self {
            directory,
            own: None,
            known: HashMap::new(),
        }
    }

    /// As [`Sessions::new`], for one who has a session and knows whether it lives.
    pub(super) fn with_own(directory: &'a Path, own: &'a str, is_gone: bool) -> Self {
        Self {
            directory,
            own: Some(own),
            known: HashMap::from([(own.into(), is_gone)]),
        }
    }
}

impl Crowd for Sessions<'_> {
    fn tells_deaths(&self) -> bool {
        true
    }

    fn is_gone(&mut self, session: &str) -> bool {
        if let Some(known) = self.known.get(session) {
            return *known;
        }
        let is_gone = is_dead(self.directory, session);
        self.known.insert(session.into(), is_gone);
        is_gone
    }

    fn can_hear(&mut self, waiter: &Waiter) -> bool {
        // A session can outlive its process, in a copy of its descriptor: then nobody listens.
        waiter.session.as_deref().is_some_and(|session| {
            !self.is_gone(session)
                && (self.own == Some(session) || post::reaches(self.directory, session))
        })
    }
}

/// Whether the session's file is gone or unlocked. In doubt it lives, and its TTL decides.
fn is_dead(directory: &Path, id: &str) -> bool {
    // Read from the database, and about to become part of a path.
    if !is_id(id) {
        return false;
    }
    match File::open(lock_path(directory, id)) {
        // A shared lock, so that two who ask at once do not take each other for the session.
        Ok(file) => file.try_lock_shared().is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Removes files of dead sessions. To be called inside the gate.
pub(super) fn sweep(directory: &Path) {
    let names = fs::read_dir(directory).into_iter().flatten().flatten();
    let ids = names.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let id = name.strip_suffix(".lock")?;
        is_id(id).then(|| id.to_owned())
    });
    for id in ids.filter(|id| is_dead(directory, id)).take(SWEEP) {
        // The lock file last: while it is there, the next sweep finds what this one left.
        let _ = fs::remove_file(socket_path(directory, &id));
        let _ = fs::remove_file(lock_path(directory, &id));
    }
}

/// Whether any session of the store lives.
pub(super) fn any_lives(directory: &Path) -> bool {
    let names = fs::read_dir(directory).into_iter().flatten().flatten();
    names
        .filter(|entry| entry.path().extension().is_some_and(|it| it == "lock"))
        .any(|entry| match File::open(entry.path()) {
            Ok(file) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
            Err(_) => false,
        })
}

/// What tells a file from another that took its name.
pub(super) type Identity = (u64, u64);

#[allow(clippy::needless_pass_by_value)] // reads better where it is used
pub(super) fn identity(file: fs::Metadata) -> Identity {
    (file.dev(), file.ino())
}

pub(super) fn lock_path(directory: &Path, id: &str) -> PathBuf {
    directory.join(format!("{id}.lock"))
}

pub(super) fn socket_path(directory: &Path, id: &str) -> PathBuf {
    directory.join(format!("{id}.sock"))
}

fn is_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn sessions(directory: &Path) -> Sessions<'_> {
        Sessions::new(directory)
    }

    #[test]
    fn a_session_lives_until_the_last_copy_of_its_descriptor_is_closed() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let session = Session::begin(home, &Random::system()).unwrap();
        let id = Arc::clone(session.id());
        assert!(!sessions(home).is_gone(&id));
        let copy = session.share().unwrap();
        drop(session);
        assert!(!sessions(home).is_gone(&id));
        assert!(any_lives(home));
        sweep(home);
        assert!(lock_path(home, &id).exists());
        drop(copy);
        assert!(sessions(home).is_gone(&id));
        assert!(!any_lives(home));
        sweep(home);
        assert!(!lock_path(home, &id).exists());
    }

    #[test]
    fn what_is_no_session_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        fs::write(home.join("notes.lock"), "").unwrap();
        sweep(home);
        assert!(home.join("notes.lock").exists());
        assert!(!sessions(home).is_gone("../../etc/passwd"));
        assert!(sessions(home).is_gone("0123456789abcdef"));
    }

    #[test]
    fn a_session_ended_in_order_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        drop(Session::begin(home.path(), &Random::system()).unwrap());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
