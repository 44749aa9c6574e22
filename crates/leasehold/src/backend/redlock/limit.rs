//! How long a node may take to answer.

use std::time::Duration;

use leasehold_core::quorum::Nodes;

use super::roster::Roster;
use crate::clock::Clock;

/// In how many steps a time passes.
const STEPS: u32 = 20;

/// Waits for so long, in steps.
///
/// A process that was stopped or starved for a while takes up the answers that came meanwhile, for
/// whatever it missed counts as one step; a single timer would be up before they are read.
pub(super) async fn pass(clock: &Clock, span: Duration) {
    for _ in 0..STEPS {
        clock.sleep_until(clock.now().after(span / STEPS)).await;
    }
}

/// The nodes that do not answer and are not to be asked. While so many of them are silent that
/// nothing can be had from the rest, waits for them, for so long at most: requests that were sent
/// earlier tell when one is back.
pub(super) async fn stuck(roster: &Roster, span: Duration) -> Nodes {
    for _ in 0..STEPS {
        let stuck = roster.stuck();
        if stuck.len() <= roster.size.spare() {
            return stuck;
        }
        let clock = &roster.settings.clock;
        clock.sleep_until(clock.now().after(span / STEPS)).await;
    }
    roster.stuck()
}
