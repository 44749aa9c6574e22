//! A schedule, made from a seed.

use std::time::Duration;

use super::{dice::Dice, target::MIN_HOLD};
use crate::checker::Expect;

/// Everything about a schedule that is decided beforehand.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// What it is made from.
    pub seed: u64,
    /// How many clients there are.
    pub clients: usize,
    /// How many tasks share them.
    pub workers: usize,
    /// How many acquisitions each task makes.
    pub rounds: u32,
    /// The names that are locked.
    pub names: Vec<&'static str>,
    /// The TTLs that are asked for, in milliseconds.
    pub ttls: Vec<u64>,
    /// Holders do not renew, and hold on until they are told that they lost.
    pub overrun: bool,
    /// How long one request may take.
    pub call_timeout: Duration,
    /// What goes wrong on the way to the store and back.
    pub faults: Faults,
    /// What else happens, and when.
    pub events: Vec<(Duration, Event)>,
    /// From when on nothing goes wrong.
    pub faults_end: Duration,
}

/// How often, in a thousand, something goes wrong with a message; and how late messages are.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Faults {
    /// The most milliseconds a message takes in each direction.
    pub latency: u64,
    /// A request that is never executed.
    pub request_lost: u32,
    /// A request that is executed, and its answer is lost.
    pub reply_lost: u32,
    /// A message that is this many milliseconds late.
    pub late: (u32, u64),
    /// A renewal or a release that is executed twice.
    pub repeated: u32,
    /// A request that is refused because the store is away.
    pub refused: u32,
    /// An event that is lost.
    pub event_lost: u32,
    /// An event that is this many milliseconds late.
    pub event_late: (u32, u64),
    /// An event that comes twice.
    pub event_repeated: u32,
    /// When a client, by its number, is cut off from the store.
    pub outages: Vec<(usize, Duration, Duration)>,
}

/// Something that happens once.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums)] // each must be carried out
pub enum Event {
    /// The store forgets a name.
    Vanish(&'static str),
    /// An operator ends the lease on a name.
    Revoke(&'static str),
    /// The clock of one client leaps.
    Leap(usize, Duration),
    /// A client is shut down, whatever its tasks are about.
    Shutdown(usize),
    /// A client's process is killed. Its connection for events closes, or stays half open.
    Crash(usize, bool),
    /// The machine that everything runs on is suspended.
    Suspend(Duration),
}

impl Plan {
    /// The schedule of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let dice = Dice::new(seed);
        let clients = 2 + dice.below(3) as usize;
        let names = dice.pick(&[
            vec!["a"],
            vec!["a"],
            vec!["a", "b"],
            vec!["rw"],
            vec!["s"],
            vec!["a", "rw"],
            vec!["e"],
        ]);
        let calm = dice.chance(250);
        let faults_end = Duration::from_secs(2) + dice.millis(6000);
        let mut plan = Self {
            seed,
            clients,
            workers: clients + dice.below(3) as usize,
            rounds: 1 + dice.below(3) as u32,
            names: names.clone(),
            ttls: dice.pick(&[
                vec![400, 1000],
                vec![1000, 3000],
                vec![3000, 30_000],
                vec![30_000],
            ]),
            overrun: dice.chance(100),
            call_timeout: dice.pick(&[200, 1000, 5000].map(Duration::from_millis)),
            faults: Faults {
                latency: dice.pick(&[0, 1, 5, 20]),
                ..Faults::default()
            },
            events: Vec::new(),
            faults_end,
        };
        if !calm {
            plan.faults = faults(&dice, clients, plan.faults.latency, faults_end);
            plan.events = events(&dice, clients, &names, faults_end);
        }
        if plan.overrun {
            plan.ttls = vec![400];
            plan.faults.late = (200, 200);
        }
        plan
    }

    /// Whether nothing goes wrong.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        let Faults {
            latency,
            ref outages,
            late,
            event_late,
            ..
        } = self.faults;
        let odds = [
            self.faults.request_lost,
            self.faults.reply_lost,
            late.0,
            self.faults.repeated,
            self.faults.refused,
            self.faults.event_lost,
            event_late.0,
            self.faults.event_repeated,
        ];
        let calm = odds.iter().all(|odds| *odds == 0) && outages.is_empty();
        calm && self.events.is_empty() && latency <= 20
    }

    /// The longest lease there can be.
    #[must_use]
    pub fn longest(&self) -> Duration {
        let longest = self.ttls.iter().copied().max().unwrap_or(0);
        MIN_HOLD.max(Duration::from_millis(longest))
    }

    /// How long what a crashed client had in the store can live on: a lease, and one that it was
    /// handed while its death was not noticed, or its patience.
    #[must_use]
    pub fn outlives_crashes(&self) -> Duration {
        const LONGEST_PATIENCE: Duration = Duration::from_secs(9);
        let crashes = |(_, event): &(Duration, Event)| matches!(event, Event::Crash(..));
        if self.events.iter().any(crashes) {
            2 * self.longest() + LONGEST_PATIENCE
        } else {
            Duration::ZERO
        }
    }

    /// What the checker may expect of this schedule.
    #[must_use]
    pub fn expect(&self) -> Expect {
        const START: u64 = 1_000_000_000_000;
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let broken = |event: &Event| matches!(event, Event::Vanish(_) | Event::Revoke(_));
        let slept: Duration = self.events.iter().map(|(_, event)| event.span()).sum();
        let calm = self.is_calm();
        // In calm, a few messages there and back; a waiter's next sign of life would be too late.
        let idle = MIN_HOLD + Duration::from_millis(400 + 20 * self.faults.latency);
        Expect {
            exclusion: !self.events.iter().any(|(_, event)| broken(event)),
            calm,
            idle: Some(if calm {
                idle
            } else {
                // A request hangs until its limit, is tried again, and the waiter's next sign of
                // life tells it what it missed.
                slept + self.call_timeout + Duration::from_secs(5) + self.outlives_crashes()
            }),
            faults_end: START + nanos(self.faults_end + slept),
            loss_slack: Duration::from_millis(5),
        }
    }
}

impl Event {
    const fn span(&self) -> Duration {
        match self {
            Self::Leap(_, span) | Self::Suspend(span) => *span,
            _ => Duration::ZERO,
        }
    }
}

/// Each kind of fault is there or not, so that schedules differ in kind and not only in detail.
fn faults(dice: &Dice, clients: usize, latency: u64, end: Duration) -> Faults {
    let odds = |most: u64| {
        if dice.chance(400) {
            1 + dice.below(most) as u32
        } else {
            0
        }
    };
    let span = end.as_millis() as u64;
    let mut outages = Vec::new();
    while dice.chance(250) {
        let from = dice.millis(span);
        let to = (from + dice.millis(4000)).min(end);
        outages.push((1 + dice.below(clients as u64) as usize, from, to));
    }
    Faults {
        latency: if dice.chance(200) { 100 } else { latency },
        request_lost: odds(150),
        reply_lost: odds(150),
        late: (odds(400), 50 + dice.below(1000)),
        repeated: odds(300),
        refused: odds(150),
        event_lost: odds(500),
        event_late: (odds(500), 50 + dice.below(3000)),
        event_repeated: odds(500),
        outages,
    }
}

fn events(
    dice: &Dice,
    clients: usize,
    names: &[&'static str],
    end: Duration,
) -> Vec<(Duration, Event)> {
    let mut events = Vec::new();
    // Both break exclusion, which ends most checks: only in some schedules.
    let breaks = dice.chance(150);
    while dice.chance(if breaks { 700 } else { 300 }) {
        let span = Duration::from_millis(10) + dice.millis(5000);
        let event = match dice.below(4) {
            0 if breaks => Event::Vanish(dice.pick(names)),
            1 if breaks => Event::Revoke(dice.pick(names)),
            0..=2 => Event::Leap(1 + dice.below(clients as u64) as usize, span),
            _ => Event::Suspend(span),
        };
        events.push((dice.millis(end.as_millis() as u64), event));
    }
    if dice.chance(60) {
        let client = 1 + dice.below(clients as u64) as usize;
        events.push((dice.millis(end.as_millis() as u64), Event::Shutdown(client)));
    }
    if dice.chance(100) {
        let client = 1 + dice.below(clients as u64) as usize;
        let crash = Event::Crash(client, dice.chance(500));
        events.push((dice.millis(end.as_millis() as u64), crash));
    }
    events.sort_by_key(|(at, _)| *at);
    events
}
