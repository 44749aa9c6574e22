//! Lock libraries whose locks are a queue in the store, each in a process of its own.

use std::{process::Command, time::Duration};

use leasehold_tests::holder::Holder;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Their sessions' time to live: what dies with them is gone after it.
pub(crate) const TTL: Duration = Duration::from_secs(5);

/// One client of theirs, which holds or waits for one lock at a time.
pub(crate) trait Foreign {
    /// Begins to acquire what they call `path`.
    fn acquire(&mut self, path: &str);

    /// Waits until they hold what they asked for.
    fn expect_held(&mut self);

    /// Whether they have said that they hold it; never waits.
    fn has_said_held(&mut self) -> bool;

    /// Tries without waiting; none where the library cannot.
    fn try_take(&mut self, path: &str) -> Option<bool>;

    /// Gives up what they hold.
    fn release(&mut self);

    /// Ends the process with -9.
    fn kill(&mut self);
}

/// A driver of `tests/interop` that does as it is told.
pub(crate) struct Driver {
    process: Holder,
    library: &'static str,
}

impl Driver {
    pub(crate) fn start(command: &mut Command, library: &'static str) -> Self {
        let process = Holder::spawn(command);
        Self { process, library }
    }

    fn tell(&mut self, what: &str, path: &str) {
        let (library, ttl) = (self.library, TTL.as_secs());
        self.process.tell(&format!("{what} {library} {path} {ttl}"));
    }
}

impl Foreign for Driver {
    fn acquire(&mut self, path: &str) {
        self.tell("acquire", path);
    }

    fn expect_held(&mut self) {
        assert_eq!(self.process.line(), "held", "{}", self.library);
    }

    fn has_said_held(&mut self) -> bool {
        let line = self.process.try_line();
        line.is_some_and(|line| {
            assert_eq!(line, "held", "{}", self.library);
            true
        })
    }

    fn try_take(&mut self, path: &str) -> Option<bool> {
        if self.library == "election" {
            return None;
        }
        self.tell("try", path);
        match self.process.line().as_str() {
            "held" => Some(true),
            "busy" => Some(false),
            other => panic!("{}: {other}", self.library),
        }
    }

    fn release(&mut self) {
        self.process.tell("release");
        assert_eq!(self.process.line(), "released", "{}", self.library);
    }

    fn kill(&mut self) {
        self.process.kill();
    }
}

/// `etcdctl lock` or `etcdctl elect`: a process for each lock, which says when it has it.
pub(crate) struct Ctl {
    /// `etcdctl` with its options.
    pub(crate) command: fn(&str, &[String]) -> Command,
    pub(crate) endpoints: String,
    pub(crate) elects: bool,
    pub(crate) process: Option<Holder>,
}

impl Ctl {
    fn process(&mut self) -> &mut Holder {
        self.process.as_mut().expect("it was told to acquire")
    }
}

impl Foreign for Ctl {
    fn acquire(&mut self, path: &str) {
        let words = if self.elects {
            vec!["elect".into(), path.into(), "ctl".into()]
        } else {
            vec![
                "lock".into(),
                format!("--ttl={}", TTL.as_secs()),
                path.into(),
            ]
        };
        let mut command = (self.command)(&self.endpoints, &words);
        self.process = Some(Holder::spawn(&mut command));
    }

    fn expect_held(&mut self) {
        let said = self.process().line();
        assert!(said.contains('/'), "the key is said: {said}");
    }

    fn has_said_held(&mut self) -> bool {
        self.process().try_line().is_some()
    }

    fn try_take(&mut self, _: &str) -> Option<bool> {
        None
    }

    fn release(&mut self) {
        let process = self.process.take().expect("it was told to acquire");
        let pid = i32::try_from(process.id()).unwrap();
        kill(Pid::from_raw(pid), Signal::SIGINT).unwrap();
        // Its output ends when it has put its house in order.
        let _ = process.remaining_lines();
    }

    fn kill(&mut self) {
        self.process().kill();
    }
}
