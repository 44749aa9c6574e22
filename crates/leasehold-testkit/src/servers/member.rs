//! One process of several that are a store together.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::{leash::Leash, ready::wait_until};

/// A process with a folder and the words that start it, again and again.
#[derive(Debug)]
pub(super) struct Member {
    // In this order: the process ends before its data goes.
    process: Option<Leash>,
    folder: Folder,
    words: Vec<String>,
}

/// Whose a member's folder is.
#[derive(Debug)]
enum Folder {
    /// Removed when this is dropped.
    Ours(TempDir),
    /// Removed when the process is: this is never dropped.
    Process(PathBuf),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Self::Ours(folder) => folder.path(),
            Self::Process(folder) => folder,
        }
    }
}

impl Member {
    /// One that is not started yet, with an empty folder.
    pub(super) fn new(prefix: &str, until_exit: bool) -> Self {
        let folder = TempDir::with_prefix(prefix).expect("a temporary directory");
        let folder = if until_exit {
            Folder::Process(folder.keep())
        } else {
            Folder::Ours(folder)
        };
        Self {
            process: None,
            folder,
            words: Vec::new(),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The program and its arguments.
    pub(super) fn set_words(&mut self, words: Vec<String>) {
        self.words = words;
    }

    /// Starts the process, without waiting for what it does.
    pub(super) fn launch(&mut self) {
        let (program, arguments) = self.words.split_first().expect("words were set");
        let program = program.as_ref();
        let process = match &self.folder {
            Folder::Ours(folder) => Leash::start(program, arguments, folder.path()),
            Folder::Process(folder) => Leash::start_with_folder(program, arguments, folder),
        };
        self.process = Some(process);
    }

    /// The process that was started last.
    pub(super) fn pid(&self) -> i32 {
        self.running().pid()
    }

    /// Asks until the answer is yes; `false` if the process ended instead, or after a minute.
    pub(super) fn wait_until(&self, mut ready: impl FnMut() -> bool) -> bool {
        wait_until(|| !self.is_alive() || ready()) && self.is_alive()
    }

    pub(super) fn is_alive(&self) -> bool {
        self.process.as_ref().is_some_and(Leash::is_alive)
    }

    /// Stops the process where it stands; connections stay open and silent.
    pub(super) fn pause(&self) {
        self.running().signal(Signal::SIGSTOP);
    }

    pub(super) fn resume(&self) {
        self.running().signal(Signal::SIGCONT);
    }

    /// Ends the process at once, as a crash does; the data stays.
    pub(super) fn kill(&mut self) {
        if let Folder::Process(_) = self.folder {
            panic!("a server that is shared until the program ends is not killed");
        }
        self.process = None;
    }

    fn running(&self) -> &Leash {
        self.process.as_ref().expect("the server was not killed")
    }
}
