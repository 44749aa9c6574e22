//! When a command has to be ended so that it is gone before its lease can pass on.

use std::time::Duration;

use crate::time::Instant;

/// The share of the TTL that a grace may take at most: renewals happen in the first third, and
/// one that fails needs the second to be tried again.
const MOST: u32 = 3;
/// Below this, a command has no time to react, and the machine none to be late.
const LEAST: Duration = Duration::from_millis(20);
/// How long before the deadline everything is dead at the latest.
const MARGIN: Duration = Duration::from_millis(500);

/// When to ask a command to end, and when to end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// TERM is due.
    pub(crate) term: Instant,
    /// KILL is due.
    pub(crate) kill: Instant,
}

impl Plan {
    /// Never: the command may outlive its lease.
    pub(crate) const NEVER: Self = Self {
        term: Instant::MAX,
        kill: Instant::MAX,
    };

    /// The plan for a lease that may be trusted until `deadline`.
    pub(crate) fn before(deadline: Instant, grace: Duration) -> Self {
        Self {
            term: deadline.before(grace),
            kill: deadline.before(MARGIN.min(grace / 4)),
        }
    }

    /// The plan once TERM was sent at `asked`: a deadline that moves on gives no more than the
    /// whole grace, for the end of the command is decided.
    pub(crate) fn ending(self, asked: Instant, grace: Duration) -> Self {
        Self {
            term: Instant::MAX,
            kill: self.kill.min(asked.after(grace)),
        }
    }

    /// The plan for one who only acts when the wrapper does not: a little later where there is
    /// time for it.
    pub(crate) fn late(self, grace: Option<Duration>) -> Self {
        let lag = (grace.unwrap_or_default() / 8).min(Duration::from_millis(100));
        Self {
            term: self.term.after(lag),
            kill: self.kill.after(lag),
        }
    }
}

/// The grace for a lease of `ttl`, `wanted` or else 5 s but not over a quarter of the TTL.
///
/// # Errors
///
/// `wanted` leaves too little of the TTL to hold the lock, or too little time to end a command.
pub(crate) fn grace(wanted: Option<Duration>, ttl: Duration) -> Result<Duration, String> {
    let Some(wanted) = wanted else {
        return Ok((ttl / 4).min(Duration::from_secs(5)));
    };
    if wanted > ttl / MOST {
        return Err(format!(
            "a grace of {wanted:?} is more than a third of the TTL, {ttl:?}"
        ));
    }
    if wanted < LEAST {
        return Err(format!(
            "a grace of {wanted:?} is too short to end anything in: at least 20 ms"
        ));
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn everything_is_dead_before_the_deadline() {
        let deadline = Instant::ORIGIN.after(100_000 * MS);
        for (grace, term, kill) in [
            (24, 99_976, 99_994),
            (1000, 99_000, 99_750),
            (8000, 92_000, 99_500),
        ] {
            let plan = Plan::before(deadline, grace * MS);
            assert_eq!(plan.term.as_millis(), term);
            assert_eq!(plan.kill.as_millis(), kill);
        }
    }

    #[test]
    fn a_deadline_that_moves_on_does_not_spare_a_command_that_was_told_to_end() {
        let at = |ms: u32| Instant::ORIGIN.after(ms * MS);
        let plan = Plan::before(at(10_000), 1000 * MS).ending(at(9_000), 1000 * MS);
        assert_eq!(plan.kill, at(9_750));
        let moved = Plan::before(at(50_000), 1000 * MS).ending(at(9_000), 1000 * MS);
        assert_eq!(moved.kill, at(10_000));
        assert_eq!(moved.term, Instant::MAX);
    }

    #[test]
    fn the_grace_keeps_within_its_bounds() {
        let ttl = 30_000 * MS;
        assert_eq!(grace(None, ttl), Ok(5000 * MS));
        assert_eq!(grace(None, 4000 * MS), Ok(1000 * MS));
        assert_eq!(grace(Some(10_000 * MS), ttl), Ok(10_000 * MS));
        assert!(grace(Some(10_001 * MS), ttl).is_err());
        assert!(grace(Some(Duration::ZERO), ttl).is_err());
    }
}
