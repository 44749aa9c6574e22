use core::{fmt, time::Duration};

/// How long a lease lives in the store when nobody renews it: 100 ms to 24 h, in whole
/// milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u32);

impl Ttl {
    /// The shortest: 100 ms.
    pub const MIN: Self = Self(100);
    /// The longest: 24 h.
    pub const MAX: Self = Self(24 * 60 * 60 * 1000);
    /// What a lock has that asks for nothing else: 30 s.
    pub const DEFAULT: Self = Self(30_000);

    /// A TTL of `span`, a fraction of a millisecond rounded up.
    ///
    /// # Errors
    ///
    /// `span` is outside 100 ms to 24 h.
    pub fn new(span: Duration) -> Result<Self, TtlError> {
        let millis = span.as_nanos().div_ceil(1_000_000);
        match u32::try_from(millis) {
            Ok(millis) if (Self::MIN.0..=Self::MAX.0).contains(&millis) => Ok(Self(millis)),
            _ => Err(TtlError(span)),
        }
    }

    /// A TTL of whole milliseconds, for values read back from a store.
    ///
    /// # Errors
    ///
    /// `millis` is outside 100 ms to 24 h.
    pub fn from_millis(millis: u64) -> Result<Self, TtlError> {
        Self::new(Duration::from_millis(millis))
    }

    /// The TTL in milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 as u64
    }

    /// The TTL as a duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        Duration::from_millis(self.0 as u64)
    }

    /// The TTL nearest to `span` that is allowed.
    #[must_use]
    pub fn clamped(span: Duration) -> Self {
        Self::new(span.clamp(Self::MIN.get(), Self::MAX.get())).unwrap_or(Self::DEFAULT)
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Debug for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A TTL outside the range that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlError(Duration);

impl fmt::Display for TtlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TTL {:?} is outside 100 ms to 24 h", self.0)
    }
}

impl core::error::Error for TtlError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b03_only_the_documented_range_is_taken_and_fractions_round_up() {
        let taken = [
            (Duration::from_millis(100), 100),
            (Duration::from_micros(99_001), 100),
            (Duration::from_nanos(1_500_000_001), 1501),
            (Duration::from_secs(86_400), 86_400_000),
        ];
        for (span, millis) in taken {
            assert_eq!(Ttl::new(span).map(Ttl::as_millis), Ok(millis));
        }
        let refused = [
            Duration::ZERO,
            Duration::from_millis(1),
            Duration::from_millis(99),
            Duration::from_millis(86_400_001),
            Duration::from_secs(10 * 365 * 86_400),
            Duration::from_millis(u64::MAX),
            Duration::MAX,
        ];
        for span in refused {
            assert!(Ttl::new(span).is_err(), "{span:?}");
        }
    }
}
