//! What is said on stderr.

use std::{
    io::{self, IsTerminal, Write},
    sync::mpsc::{self, SyncSender},
    thread,
    time::Duration,
};

use serde_json::{Map, Value, json};

use crate::{env, exit::Problem, time};

/// How important a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// What goes on inside.
    Debug,
    /// What went as it should.
    Info,
    /// What one has to know to make sense of the result.
    Note,
    /// What may need someone.
    Warning,
    /// Why the command failed.
    Error,
}

impl Level {
    const fn word(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// Bold red, yellow, cyan, plain.
    const fn colour(self) -> &'static str {
        match self {
            Self::Error => "\x1b[1;31m",
            Self::Warning => "\x1b[1;33m",
            Self::Note => "\x1b[1;36m",
            Self::Info | Self::Debug => "\x1b[2m",
        }
    }
}

/// How lines on stderr look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Format {
    /// How it is called among this program's own processes.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// The way to stderr.
///
/// A thread of its own writes, so that a terminal that was stopped with Ctrl-S, or a pipe that
/// nobody reads, cannot keep a lock from being renewed. What does not fit is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    lines: SyncSender<Line>,
    least: Level,
    format: Format,
    colour: bool,
}

#[derive(Debug)]
enum Line {
    Text(String),
    Flush(SyncSender<()>),
}

impl Talk {
    /// Says what is at least `least`, in `format`; `colour` as the user chose, `None` for where
    /// it makes sense.
    pub(crate) fn new(least: Level, format: Format, colour: Option<bool>) -> Self {
        let (lines, inbox) = mpsc::sync_channel(1024);
        // Without the thread the command goes on in silence, rather than not at all.
        let _ = thread::Builder::new().name("stderr".into()).spawn(move || {
            for line in inbox {
                match line {
                    Line::Text(text) => drop(io::stderr().lock().write_all(text.as_bytes())),
                    Line::Flush(done) => drop(done.send(())),
                }
            }
        });
        let suits = || io::stderr().is_terminal() && !env::no_color();
        let colour = format == Format::Text && colour.unwrap_or_else(suits);
        Self {
            lines,
            least,
            format,
            colour,
        }
    }

    /// Whether lines of `level` are said.
    pub(crate) fn says(&self, level: Level) -> bool {
        level >= self.least
    }

    /// Says `message`.
    pub(crate) fn say(&self, level: Level, message: impl AsRef<str>) {
        self.say_with(level, message.as_ref(), Map::new());
    }

    /// Says `message`, with what a program would want to know beside it.
    pub(crate) fn say_with(&self, level: Level, message: &str, facts: Map<String, Value>) {
        if !self.says(level) {
            return;
        }
        let line = match self.format {
            Format::Text if self.colour => {
                format!("{}{}:\x1b[0m {message}\n", level.colour(), level.word())
            }
            Format::Text => format!("{}: {message}\n", level.word()),
            Format::Json => json_line(level, message, facts),
        };
        self.send(line);
    }

    /// Says why the command failed, and what to do about it.
    pub(crate) fn problem(&self, problem: &Problem) {
        let mut facts = Map::new();
        if let Some(hint) = &problem.hint {
            facts.insert("hint".into(), json!(hint));
        }
        self.say_with(Level::Error, &problem.message, facts);
        if let (Some(hint), Format::Text) = (&problem.hint, self.format) {
            let (on, off) = if self.colour {
                ("\x1b[1;36m", "\x1b[0m")
            } else {
                ("", "")
            };
            self.send(format!("\n{on}hint:{off} {hint}\n"));
        }
    }

    /// Waits until everything said so far is written, or a second is over.
    pub(crate) fn flush(&self) {
        let (done, written) = mpsc::sync_channel(1);
        if self.lines.try_send(Line::Flush(done)).is_ok() {
            let _ = written.recv_timeout(Duration::from_secs(1));
        }
    }

    fn send(&self, line: String) {
        let _ = self.lines.try_send(Line::Text(line));
    }
}

fn json_line(level: Level, message: &str, facts: Map<String, Value>) -> String {
    let mut object = Map::new();
    object.insert("version".into(), json!(1));
    object.insert("time".into(), json!(time::wall().to_string()));
    object.insert("level".into(), json!(level.word()));
    object.insert("message".into(), json!(message));
    object.extend(facts);
    format!("{}\n", Value::Object(object))
}
