//! How long a waiter pauses before its next ballot.

use core::time::Duration;

use super::Defeat;
use crate::backoff::scaled;

/// What a waiter knows when it lost a ballot.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs)] // a driver fills in every field
pub struct Loser {
    /// Why it lost.
    pub defeat: Defeat,
    /// How long a majority takes to answer.
    pub round_trip: Duration,
    /// How long it has waited already.
    pub age: Duration,
    /// When the lock can come free without news, as far as a majority knows.
    pub change_in: Duration,
}

/// The pause, `dice` being random bits.
///
/// Several that lost to each other must not meet again, so the pause is random; and nothing queues
/// them, so those that have waited longer are given shorter ones, and win in the end.
#[must_use]
pub fn after(loser: &Loser, dice: u64) -> Duration {
    const SHORTEST: Duration = Duration::from_millis(1);
    const REPROBE: Duration = Duration::from_secs(1);
    let round_trip = loser.round_trip.clamp(SHORTEST, REPROBE);
    let age = aged(loser.age);
    match loser.defeat {
        // A majority is held: until it can change, or until news comes. Behind it, by age.
        Defeat::Held => loser.change_in.min(REPROBE) + scaled(round_trip * 8 / age, dice),
        Defeat::Split | Defeat::Slipped => round_trip / 2 + scaled(round_trip * 4 / age, dice),
        Defeat::Unreachable | Defeat::TooLate => {
            let span = (round_trip * 8).max(Duration::from_millis(100));
            span / 2 + scaled(span, dice)
        }
    }
}

/// The pause after news that the lock may be free: spread, so that not all ask at once, the
/// longest waiting first.
#[must_use]
pub fn news(round_trip: Duration, age: Duration, dice: u64) -> Duration {
    scaled(round_trip * 4 / aged(age), dice)
}

/// The pause of one that has just come where others wait: longer than most of theirs after news.
#[must_use]
pub fn newcomer(round_trip: Duration, dice: u64) -> Duration {
    round_trip * 2 + scaled(round_trip * 4, dice)
}

/// By how much a waiter's pauses shrink: one more for each quarter of a second, up to twelve.
fn aged(age: Duration) -> u32 {
    let quarters = u32::try_from(age.as_millis() / 250).unwrap_or(u32::MAX);
    quarters.min(11) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(4);

    fn loser(defeat: Defeat, age: u64) -> Loser {
        Loser {
            defeat,
            round_trip: TRIP,
            age: Duration::from_millis(age),
            change_in: Duration::from_millis(300),
        }
    }

    #[test]
    fn the_longest_waiting_pause_the_least() {
        for defeat in [Defeat::Held, Defeat::Split, Defeat::Slipped] {
            let old = after(&loser(defeat, 60_000), u64::MAX);
            assert!(old < after(&loser(defeat, 0), u64::MAX), "{defeat:?}");
            assert!(after(&loser(defeat, 60_000), 0) <= old);
        }
        assert!(news(TRIP, Duration::from_secs(9), u64::MAX) < news(TRIP, TRIP, u64::MAX));
    }

    #[test]
    fn a_held_lock_is_asked_for_when_it_can_change() {
        assert_eq!(
            after(&loser(Defeat::Held, 0), 0),
            Duration::from_millis(300)
        );
        let far = Loser {
            change_in: Duration::MAX,
            ..loser(Defeat::Held, 0)
        };
        assert!(after(&far, u64::MAX) <= Duration::from_millis(1_050));
    }
}
