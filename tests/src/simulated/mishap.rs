//! What happens to the server in a schedule, beside what the schedule knows of itself.

use std::time::Duration;

use leasehold_testkit::sim::{Plan, dice::Dice};

/// Something that happens to the server once.
#[derive(Clone, Debug)]
pub(super) enum Mishap {
    /// SCRIPT FLUSH.
    Flush,
    /// CLIENT KILL, for all connections of one client.
    Kill(usize),
    /// The process is stopped for so long.
    Pause(Duration),
    /// What is on the connections of a client stays there for so long.
    Stall(usize, Duration),
    /// A new process.
    Restart {
        /// After so long.
        away: Duration,
        /// It loads its data for so long.
        loading: Duration,
        /// There are no data.
        empty: bool,
    },
}

/// What happens, and when.
pub(super) fn mishaps(plan: &Plan) -> Vec<(Duration, Mishap)> {
    let dice = Dice::new(plan.seed.rotate_left(29) ^ 0x5eed);
    let end = plan.faults_end.as_millis() as u64;
    let mut all = Vec::new();
    // That scripts are forgotten is no excuse for anything.
    while dice.chance(300) {
        all.push((dice.millis(end), Mishap::Flush));
    }
    let forgets = dice.chance(200);
    while !plan.is_calm() && dice.chance(400) {
        let mishap = match dice.below(6) {
            0 | 1 => Mishap::Kill(1 + dice.below(plan.clients as u64) as usize),
            2 => Mishap::Pause(dice.millis(3000)),
            3 | 4 => {
                let client = 1 + dice.below(plan.clients as u64) as usize;
                Mishap::Stall(client, dice.millis(8000))
            }
            _ => Mishap::Restart {
                away: dice.millis(2000),
                loading: dice.pick(&[Duration::ZERO, Duration::from_millis(500)]),
                empty: forgets,
            },
        };
        all.push((dice.millis(end), mishap));
    }
    all.sort_by_key(|(at, _)| *at);
    all
}
