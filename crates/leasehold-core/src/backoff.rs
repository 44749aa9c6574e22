//! How long to wait before the next try, so that many do not try in step.

use core::time::Duration;

/// Decorrelated jitter: each pause is random between the base and three times the last one, capped.
///
/// Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    last: Duration,
}

impl Backoff {
    /// Pauses of at least `base` and at most `cap`.
    #[must_use]
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            last: base,
        }
    }

    /// The next pause, `dice` being 64 random bits.
    pub fn next(&mut self, dice: u64) -> Duration {
        let reach = self
            .last
            .saturating_mul(3)
            .min(self.cap)
            .saturating_sub(self.base);
        self.last = (self.base + scaled(reach, dice)).min(self.cap);
        self.last
    }

    /// Starts over, after a success.
    pub const fn reset(&mut self) {
        self.last = self.base;
    }
}

/// `span` with a random tenth added or taken off, so that timers set together do not fire together.
#[must_use]
pub fn jittered(span: Duration, dice: u64) -> Duration {
    span - span / 10 + scaled(span / 5, dice)
}

/// A random share of `span`.
pub(crate) fn scaled(span: Duration, dice: u64) -> Duration {
    const STEPS: u64 = 1 << 16;
    let step = u32::try_from(dice % STEPS).unwrap_or(0);
    span / (1 << 16) * step
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn pauses_stay_between_base_and_cap(
            base in 1_u64..1000, factor in 1_u64..100, dice: Vec<u64>,
        ) {
            let (base, cap) = (Duration::from_millis(base), Duration::from_millis(base * factor));
            let mut backoff = Backoff::new(base, cap);
            for roll in dice {
                let pause = backoff.next(roll);
                prop_assert!((base..=cap).contains(&pause));
            }
        }

        #[test]
        fn jitter_is_a_tenth_either_way(millis in 1_u64..86_400_000, dice: u64) {
            let span = Duration::from_millis(millis);
            let jittered = jittered(span, dice);
            prop_assert!(jittered >= span - span / 10 && jittered <= span + span / 10);
        }
    }
}
