//! The one place where randomness enters.

use std::sync::{Arc, Mutex, PoisonError};

/// Random bits: the system's, or a seeded sequence for tests that replay.
#[derive(Clone, Debug, Default)]
pub struct Random(Option<Arc<Mutex<u64>>>);

impl Random {
    /// The system's source.
    #[must_use]
    pub const fn system() -> Self {
        Self(None)
    }

    /// The sequence that `seed` begins: for tests only, for it can be guessed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Some(Arc::new(Mutex::new(seed))))
    }

    /// 64 random bits.
    ///
    /// # Panics
    ///
    /// When the system has no random bits to give, which a running Linux always has.
    #[must_use]
    #[allow(clippy::disallowed_methods)]
    pub fn bits(&self) -> u64 {
        match &self.0 {
            None => getrandom::u64().expect("the system gives random bits"),
            Some(state) => split_mix(&mut state.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// 128 random bits.
    #[must_use]
    pub fn wide(&self) -> u128 {
        u128::from(self.bits()) << 64 | u128::from(self.bits())
    }
}

/// One step of SplitMix64. Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
/// Generators", OOPSLA 2014.
const fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
