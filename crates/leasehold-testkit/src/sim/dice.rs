//! Random choices from a seed.

use std::time::Duration;

use leasehold::random::Random;

/// A seeded sequence of choices.
#[derive(Clone, Debug)]
pub struct Dice(Random);

impl Dice {
    /// The sequence that `seed` begins.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Random::seeded(seed))
    }

    /// A sequence of its own, for a task of its own.
    #[must_use]
    pub fn split(&self) -> Self {
        Self::new(self.0.bits())
    }

    /// A number below `end`; 0 when `end` is 0.
    #[must_use]
    pub fn below(&self, end: u64) -> u64 {
        self.0.bits() % end.max(1)
    }

    /// `true` so many times in a thousand.
    #[must_use]
    pub fn chance(&self, per_mille: u32) -> bool {
        self.below(1000) < per_mille.into()
    }

    /// Whole milliseconds up to `most`.
    #[must_use]
    pub fn millis(&self, most: u64) -> Duration {
        Duration::from_millis(self.below(most + 1))
    }

    /// One of `choices`.
    #[must_use]
    pub fn pick<T: Clone>(&self, choices: &[T]) -> T {
        let index = self.below(choices.len() as u64);
        choices[usize::try_from(index).unwrap_or(0)].clone()
    }
}
