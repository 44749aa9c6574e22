//! Clients that keep the protocol, as plain data.

use std::collections::VecDeque;

use leasehold::backend::Owner;

/// How a client of the model behaves and what is done to it.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) steps: usize,
    /// Connections break, pushes get lost, clients die, servers fill up and are demoted.
    pub(super) faults: bool,
    /// From these a waiter's patience is chosen, in ms.
    pub(super) patience: &'static [u64],
    /// The most acquisitions of one client at a time.
    pub(super) crowd: usize,
    /// How long a lock may be free, in ms, before a live first waiter has something to do.
    pub(super) idle: u64,
    /// A rule of the client that is broken on purpose.
    pub(super) broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// A lease that was pushed counts from when the push arrived.
    CountsFromReceipt,
    /// A lease that was pushed counts from the last call sent.
    CountsFromLastSent,
    /// Nobody asks again without being told to.
    NeverAsksAgain,
}

pub(super) const NAMES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting,
    Trying,
    /// Pushed so late that the lease is renewed before it counts.
    Confirming,
    Held,
    Done,
}

/// One acquisition.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) owner: Owner,
    pub(super) name: usize,
    pub(super) client: usize,
    pub(super) shared: bool,
    pub(super) limit: u64,
    pub(super) weight: u64,
    pub(super) ttl: u64,
    pub(super) hold: u64,
    pub(super) patience: u64,
    pub(super) phase: Phase,
    /// When each call was sent, by its number.
    pub(super) sent: Vec<u64>,
    pub(super) ticket: u64,
    pub(super) token: u64,
    pub(super) deadline: u64,
    pub(super) timer: Option<u64>,
    /// Ended by an operator or a stranger: its guard may be wrong.
    pub(super) revoked: bool,
}

impl Op {
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting | Phase::Trying)
    }

    /// Whether its client may believe that it holds the lock.
    pub(super) fn is_valid(&self, now: u64) -> bool {
        self.phase == Phase::Held && now < self.deadline && !self.revoked
    }

    /// Until when a lease counts that was asked for at `sent`, in µs.
    pub(super) fn bound(&self, sent: u64) -> u64 {
        sent + self.ttl * 990 - 2000
    }

    pub(super) fn member(&self) -> String {
        format!("{}{}", self.owner, self.weight)
    }
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) op: usize,
    pub(super) sent: u64,
    pub(super) ask: Ask,
    /// Whether anybody still waits for the answer.
    pub(super) wanted: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Ask {
    Acquire { seq: usize, wait: bool },
    Renew,
    Release { hold: u64 },
}

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) channel: String,
    /// Cannot subscribe: it gives no channel.
    pub(super) mute: bool,
    pub(super) alive: bool,
    /// What was sent and not yet executed, in order.
    pub(super) line: VecDeque<Call>,
    /// What was pushed and not yet read.
    pub(super) pushes: VecDeque<String>,
}
