//! Starting the command and looking at what it does.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take that should take a moment.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A store of its own for one test, and a directory.
pub(crate) struct Store {
    directory: TempDir,
    url: Option<String>,
}

/// What a command that ended had to say.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    pub(crate) fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| panic!("no exit code: {self:?}"))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Store {
    /// A file store.
    pub(crate) fn new() -> Self {
        Self {
            directory: TempDir::new().unwrap(),
            url: None,
        }
    }

    /// The store at `url`.
    pub(crate) fn at(url: &str) -> Self {
        Self {
            url: Some(url.into()),
            ..Self::new()
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.path().join("locks.db")
    }

    pub(crate) fn url(&self) -> String {
        let file = || format!("file:{}", self.file().display());
        self.url.clone().unwrap_or_else(file)
    }

    /// `leasehold ARGUMENTS`, to be changed before it is started.
    pub(crate) fn command<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = bare();
        command.env("LEASEHOLD_URL", self.url()).args(arguments);
        command
    }

    /// Runs `leasehold ARGUMENTS` to its end.
    pub(crate) fn ask<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Said {
        finish(&mut self.command(arguments))
    }

    /// Starts `leasehold ARGUMENTS`.
    pub(crate) fn start<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Running {
        Running::start(&mut self.command(arguments))
    }

    pub(crate) fn status(&self, name: &str) -> Value {
        self.ask(["status", "--json", name]).json()
    }

    pub(crate) fn is_held(&self, name: &str) -> bool {
        self.status(name)["held"] == true
    }

    pub(crate) fn waiters(&self, name: &str) -> usize {
        self.status(name)["waiters"].as_array().unwrap().len()
    }

    /// Lets nobody past the gate until what this answers is unlocked: the store answers nothing.
    pub(crate) fn close_gate(&self) -> File {
        let gate = File::open(self.path().join("locks.db.gate")).unwrap();
        gate.lock().unwrap();
        gate
    }

    /// A script that lasts until [`Store::let_end`], and its being there.
    pub(crate) fn script(&self) -> String {
        let directory = self.path().display();
        format!("touch {directory}/begun; until [ -e {directory}/end ]; do sleep 0.01; done")
    }

    pub(crate) fn wait_begun(&self) {
        wait_until("the command has begun", || {
            self.path().join("begun").exists()
        });
    }

    pub(crate) fn let_end(&self) {
        File::create(self.path().join("end")).unwrap();
    }

    pub(crate) fn wait_held(&self, name: &str) {
        wait_until("the lock is held", || self.is_held(name));
    }
}

/// `leasehold` without anything of this environment that it would heed.
pub(crate) fn bare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("LEASEHOLD_") {
            command.env_remove(variable);
        }
    }
    command.env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// Runs `command` to its end.
pub(crate) fn finish(command: &mut Command) -> Said {
    Running::start(command).end()
}

/// A command that was started. Ended, with what it started, when it is dropped.
pub(crate) struct Running {
    child: Child,
    stdout: Pipe,
    stderr: Pipe,
}

/// What comes out of a pipe, read as it comes.
struct Pipe {
    text: Arc<Mutex<Vec<u8>>>,
    reader: thread::JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let stdout = Pipe::read(child.stdout.take().unwrap());
        let stderr = Pipe::read(child.stderr.take().unwrap());
        Self {
            child,
            stdout,
            stderr,
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// What it has written to stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// What it has written to stdout so far.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Waits for its end, and that of all who write where it writes.
    pub(crate) fn end(mut self) -> Said {
        wait_until("the command ends", || self.has_ended());
        let status = self.child.wait().unwrap();
        wait_until("its output ends", || {
            self.stdout.reader.is_finished() && self.stderr.reader.is_finished()
        });
        Said {
            status,
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
        }
    }
}

impl Pipe {
    fn read(mut source: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let mut buffer = vec![0; 65536];
            while let Ok(read) = source.read(&mut buffer) {
                if read == 0 {
                    break;
                }
                sink.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        Self { text, reader }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // The guard process ends the rest.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Waits until `condition` holds, and fails the test if that takes too long.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Fails the test if more than `limit` has passed since `begun`. Only the long tier, which runs
/// where nothing else does, takes it at its word: elsewhere a process may stand still for a while.
pub(crate) fn assert_in_time(begun: Instant, limit: Duration) {
    let deep = std::env::var_os("LEASEHOLD_DEEP").is_some();
    let took = begun.elapsed();
    let limit = if deep { limit } else { limit + LIMIT / 2 };
    assert!(took < limit, "{took:?}, not within {limit:?}");
}

/// A duration for `sleep` that no other test uses: by it a process is recognised.
pub(crate) struct Marker(String);

impl Marker {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("300.{:07}{next:03}", std::process::id()))
    }

    /// A shell script of two processes that last longer than any test; `before` comes first.
    pub(crate) fn script(&self, before: &str) -> String {
        format!("{before}\nsleep {0} & sleep {0}; true", self.0)
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// How many `sleep` processes with this duration are alive.
    pub(crate) fn alive(&self) -> usize {
        let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        processes.filter(|entry| self.is_in(&entry.path())).count()
    }

    fn is_in(&self, process: &Path) -> bool {
        // A zombie has no command line.
        let command = fs::read(process.join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = command.split(|&byte| byte == 0).collect();
        words.len() > 1 && words[0].ends_with(b"sleep") && words[1] == self.0.as_bytes()
    }

    pub(crate) fn wait_alive(&self, count: usize) {
        wait_until(&format!("{count} processes"), || self.alive() == count);
    }
}

/// `text` with what differs from run to run replaced: numbers, and paths below `store`.
pub(crate) fn masked(text: &str, store: &Store) -> String {
    let text = text.replace(&*store.path().to_string_lossy(), "DIR");
    let mut masked = String::new();
    let mut in_number = false;
    for c in text.chars() {
        if !c.is_ascii_digit() {
            masked.push(c);
        } else if !in_number {
            masked.push('N');
        }
        in_number = c.is_ascii_digit();
    }
    masked
}
