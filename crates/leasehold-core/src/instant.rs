use core::{fmt, ops::Sub, time::Duration};

/// A reading of a clock that runs through suspend, in nanoseconds since an arbitrary origin.
///
/// Only readings of the same clock compare. `std::time::Instant` will not do: on Linux it stops
/// while the machine sleeps, and a lease does not.
///
/// Arithmetic saturates, so that no duration a caller can name overflows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The latest reading there is: a deadline that never comes.
    pub const MAX: Self = Self(u64::MAX);
    /// The clock's origin.
    pub const ORIGIN: Self = Self(0);

    /// A reading from nanoseconds since the clock's origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the clock's origin, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The reading `span` later; [`Instant::MAX`] when there is none.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// The reading `span` earlier; the origin when there is none.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(nanos))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Duration::from_nanos(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Instant::ORIGIN.after(Duration::MAX), Instant::MAX);
        assert_eq!(
            Instant::ORIGIN.before(Duration::from_secs(1)),
            Instant::ORIGIN
        );
        assert_eq!(Instant::ORIGIN - Instant::MAX, Duration::ZERO);
        assert_eq!(
            Instant::MAX - Instant::ORIGIN,
            Duration::from_nanos(u64::MAX)
        );
    }
}
