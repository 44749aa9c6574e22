//! What happened, written down: one record per line of JSON, in the order of time.
//!
//! Times are nanoseconds of one clock for all processes: `CLOCK_BOOTTIME` of one machine, or the
//! simulation's. An acquisition is known by its process and a number within it.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use leasehold::{backend::Mode, clock::Clock};
use serde::{Deserialize, Serialize};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs)] // written by tests
pub struct Record {
    /// When, in nanoseconds of the common clock.
    pub at: u64,
    /// In which process or simulated client.
    pub process: String,
    /// To which of its acquisitions.
    pub op: u64,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What can happen to an acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums)] // the checker judges each
pub enum What {
    /// The caller asked.
    Asked {
        /// For this name.
        name: String,
        /// To hold in this manner.
        manner: Manner,
        /// Renewed until it is released.
        renewed: bool,
    },
    /// The store put it into the queue, with this ticket.
    Queued {
        /// Smaller is earlier.
        ticket: u64,
    },
    /// The caller has a guard.
    Granted {
        /// With this fencing token.
        token: u64,
        /// Valid until then, on the common clock.
        deadline: u64,
    },
    /// The guard says that it is held.
    Held {
        /// Valid until then, on the common clock.
        deadline: u64,
    },
    /// The guard told its loss.
    Lost {
        /// Until when the guard was valid at most, on the common clock.
        deadline: u64,
    },
    /// The caller asked for the release, or dropped the guard.
    Release {
        /// Until when the guard was valid, on the common clock.
        deadline: u64,
    },
    /// The lock was handed over and taken over again: it was held all the time.
    Adopted {
        /// By this process.
        by: String,
        /// Valid until then, on the common clock.
        deadline: u64,
    },
    /// A writer asked to become a reader.
    Downgrading {
        /// Until when it was valid, on the common clock.
        deadline: u64,
    },
    /// It is one, without having let go.
    Downgraded {
        /// Valid until then, on the common clock.
        deadline: u64,
    },
    /// The client sent the store a message about one of its owners.
    Sent {
        /// What it asked for.
        message: Message,
        /// The unique part of the owner.
        owner: String,
    },
    /// Asking ended without the lock: held by another, given up, or an error.
    Refused,
    /// The process was killed, or its records end for another reason.
    Killed,
    /// The store forgot who holds a name, or an operator freed it by force; `process` and `op` mean
    /// nothing here.
    Freed {
        /// The lock's name.
        name: String,
        /// No lease from before is valid after that, on the common clock.
        until: u64,
    },
    /// The process's clock leapt forward by so many nanoseconds; `op` means nothing here.
    Leapt {
        /// By so much.
        by: u64,
    },
    /// The process was stopped for so many nanoseconds until now, or with `-` the whole machine;
    /// `op` means nothing here.
    Slept {
        /// For so long.
        by: u64,
    },
    /// Found in the store when everyone was done; `op` means nothing here.
    Left {
        /// The lock's name.
        name: String,
        /// What was left of it.
        value: String,
    },
}

/// What a client asks of a store for one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums)] // the checker judges each
pub enum Message {
    /// To hold or to wait.
    Acquire,
    /// To hold on.
    Renew,
    /// To give up.
    Release,
}

/// A mode in its written form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums)] // the checker judges each
pub enum Manner {
    /// Alone.
    Exclusive,
    /// With other readers.
    Read,
    /// As permits.
    Permit {
        /// How many there are.
        limit: u32,
        /// How many of them.
        weight: u32,
    },
}

impl Manner {
    /// The mode it stands for.
    #[must_use]
    pub const fn mode(self) -> Mode {
        match self {
            Self::Exclusive => Mode::Exclusive,
            Self::Read => Mode::Read,
            Self::Permit { limit, weight } => Mode::Permit { limit, weight },
        }
    }
}

/// A history being written by many tasks.
#[derive(Clone, Debug)]
pub struct History {
    clock: Clock,
    /// Prints each record at once, so that it outlives the process.
    prints: bool,
    records: Arc<Mutex<Vec<Record>>>,
}

impl History {
    /// An empty history on the common clock `clock`.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            prints: false,
            records: Arc::default(),
        }
    }

    /// The history of a process that may be killed: each record is printed at once.
    #[must_use]
    pub fn printed() -> Self {
        Self {
            prints: true,
            ..Self::new(Clock::system())
        }
    }

    /// The time now, on the common clock.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    /// The time `left` from now, on the common clock.
    #[must_use]
    pub fn after(&self, left: Duration) -> u64 {
        self.clock.now().after(left).as_nanos()
    }

    /// Writes down what happened now.
    pub fn record(&self, process: &str, op: u64, what: What) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        // Stamped under the lock, so that the order of records is the order of time.
        let record = Record {
            at: self.now(),
            process: process.into(),
            op,
            what,
        };
        if self.prints {
            let mut out = io::stdout().lock();
            let written = out.write_all(to_lines(std::slice::from_ref(&record)).as_bytes());
            // Without a reader there is nothing to write a history for.
            let _ = written.and_then(|()| out.flush());
        }
        records.push(record);
    }

    /// All records so far.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        self.records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Writes records as lines of JSON.
#[must_use]
pub fn to_lines(records: &[Record]) -> String {
    let line = |record| serde_json::to_string(record).expect("a record is plain data") + "\n";
    records.iter().map(line).collect()
}

/// Reads lines of JSON.
///
/// # Errors
///
/// A line is not a record.
pub fn from_lines(text: &str) -> io::Result<Vec<Record>> {
    text.lines()
        .map(|line| serde_json::from_str(line).map_err(io::Error::other))
        .collect()
}

/// Puts the histories of several processes into one, in the order of time.
#[must_use]
pub fn merged(histories: impl IntoIterator<Item = Vec<Record>>) -> Vec<Record> {
    let mut all: Vec<Record> = histories.into_iter().flatten().collect();
    all.sort_by_key(|record| record.at);
    all
}
