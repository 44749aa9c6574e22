//! A `holder` process on a leash: see `src/bin/holder.rs` for what it understands.

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

/// Far more than anything takes that ends at all.
const LONG: Duration = Duration::from_secs(60);

/// A running `holder`, killed when it is dropped.
#[derive(Debug)]
pub struct Holder {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Holder {
    /// Starts `program`, the path that cargo gives the test, with `arguments`.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        Self::spawn(Command::new(program).args(arguments))
    }

    /// Starts what `command` says.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn spawn(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = loop {
            match command.spawn() {
                // A process that another test forked just now still has the program's copy open.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::yield_now(),
                started => break started.expect("the holder starts"),
            }
        };
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            stdin,
            lines,
        }
    }

    /// The next line it says.
    ///
    /// # Panics
    ///
    /// If it says nothing for a long time.
    pub fn line(&self) -> String {
        self.lines.recv_timeout(LONG).expect("the holder answers")
    }

    /// The next line if it has said one; never waits.
    #[must_use]
    pub fn try_line(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// The next line, which begins with `word`: the rest of it.
    ///
    /// # Panics
    ///
    /// If it is another line.
    pub fn expect(&self, word: &str) -> String {
        let line = self.line();
        match line.strip_prefix(word) {
            Some(rest) => rest.trim().to_owned(),
            None => panic!("{word} was expected, not: {line}"),
        }
    }

    /// What it said until it ended.
    #[must_use]
    pub fn remaining_lines(&self) -> Vec<String> {
        self.lines.iter().collect()
    }

    /// Sends it a line.
    ///
    /// # Panics
    ///
    /// If it does not listen.
    pub fn tell(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("open");
        writeln!(stdin, "{line}").expect("the holder listens");
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with -9 and waits until it is gone.
    ///
    /// # Panics
    ///
    /// If it cannot be waited for.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().expect("our child");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The URL of the file store in `directory`.
///
/// # Panics
///
/// If the directory's name is not UTF-8.
#[must_use]
pub fn file_url(directory: &Path) -> String {
    let path = directory.join("locks.db");
    format!("file:{}", path.to_str().expect("UTF-8"))
}
