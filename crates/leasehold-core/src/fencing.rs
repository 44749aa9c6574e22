use core::{fmt, num::NonZeroU64};

/// A number that grows with every grant of a lock, for the protected resource to check.
///
/// A resource that remembers the largest fencing token it has seen and refuses smaller ones is
/// safe from a holder that was paused past its lease. At most 2^53, so that JSON, Lua and
/// JavaScript keep it exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(NonZeroU64);

impl FencingToken {
    /// The largest: 2^53.
    pub const MAX: Self = Self(NonZeroU64::new(1 << 53).expect("2^53 is not zero"));

    /// The fencing token of value `value`.
    ///
    /// # Errors
    ///
    /// `value` is zero or above 2^53.
    pub fn new(value: u64) -> Result<Self, FencingTokenError> {
        match NonZeroU64::new(value) {
            Some(inner) if value <= Self::MAX.get() => Ok(Self(inner)),
            _ => Err(FencingTokenError(value)),
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number that cannot be a fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencingTokenError(u64);

impl fmt::Display for FencingTokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not a fencing token: they go from 1 to 2^53",
            self.0
        )
    }
}

impl core::error::Error for FencingTokenError {}

/// The largest fencing token a store has given.
///
/// `next = max(last + 1, seed)`, the seed being the time in microseconds. While the counter is
/// kept, tokens rise whatever the clock says; when it is lost they still rise as long as no clock
/// went back by more than the outage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter(u64);

impl Counter {
    /// What a counter that stands in for a lost one skips: more than any run of grants between two
    /// commits to disk.
    pub const RESTART_GAP: u64 = 1 << 32;

    /// The counter that last gave `last`; zero for a new store.
    #[must_use]
    pub const fn new(last: u64) -> Self {
        Self(last)
    }

    /// The largest fencing token given so far, as a number; zero for none.
    #[must_use]
    pub const fn last(self) -> u64 {
        self.0
    }

    /// The next fencing token, `wall_micros` being the wall clock in microseconds since 1970.
    ///
    /// The last token is never passed: after 2^53 the same value comes again, which no clock
    /// before the year 2255 brings about.
    pub fn mint(&mut self, wall_micros: u64) -> FencingToken {
        let limit = FencingToken::MAX.get();
        self.0 = wall_micros.max(self.0.saturating_add(1)).min(limit);
        FencingToken::new(self.0).unwrap_or(FencingToken::MAX)
    }

    /// Skips what a store that may have forgotten its last commits could have given.
    pub fn skip_forgotten(&mut self, wall_micros: u64) {
        let limit = FencingToken::MAX.get();
        self.0 = wall_micros
            .max(self.0.saturating_add(Self::RESTART_GAP))
            .min(limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_rise_whatever_the_clock_says() {
        let mut counter = Counter::default();
        let mut last = counter.mint(1_000);
        for wall in [1_000, 999, 0, 2_000, 1_500, u64::MAX / 4096] {
            let next = counter.mint(wall);
            assert!(next > last);
            last = next;
        }
    }

    #[test]
    fn zero_and_above_2_to_53_are_refused() {
        assert!(FencingToken::new(0).is_err());
        assert!(FencingToken::new((1 << 53) + 1).is_err());
        assert_eq!(FencingToken::new(1 << 53), Ok(FencingToken::MAX));
    }
}
