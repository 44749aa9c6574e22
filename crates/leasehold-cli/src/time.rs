//! Where the command gets the time: the library's clock, which runs through suspend.

pub(crate) use leasehold::Instant;
use leasehold::clock::Clock;

/// The clock that deadlines of leases are read on.
pub(crate) const CLOCK: Clock = Clock::system();

/// The wall clock, for people.
pub(crate) fn wall() -> jiff::Timestamp {
    let micros = i64::try_from(CLOCK.wall_micros()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX)
}
