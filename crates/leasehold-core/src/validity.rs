//! How long a lease may be trusted, by the holder's own clock.
//!
//! A store counts the TTL from when it executes the request; the holder counts from **before** it
//! sent it, and takes off what clocks may differ by. So by the holder's clock the lease ends before
//! the store can give the lock away, whatever the network did in between. The argument is that of
//! the Redlock page of the Redis documentation, with the allowance for rates made explicit.

use core::time::Duration;

use crate::{Instant, Ttl};

/// What is taken off every lease besides the rate: the store counts whole milliseconds, and so may
/// the holder's timer.
const MARGIN: Duration = Duration::from_millis(2);

/// How far the clocks of a holder and a store may part over one TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Drift {
    rate_per_mille: u32,
    forward_step: Duration,
}

impl Drift {
    /// 1 %: ample for quartz and for the usual slewing of 500 ppm.
    pub const DEFAULT: Self = Self {
        rate_per_mille: 10,
        forward_step: Duration::ZERO,
    };
    /// 17 %: for hosts whose clocks chrony may slew at its default limit of 1/12, on both sides.
    pub const SLEWING: Self = Self {
        rate_per_mille: 170,
        forward_step: Duration::ZERO,
    };

    /// An allowance of `rate_per_mille` for the rates, capped at one half.
    #[must_use]
    pub const fn new(rate_per_mille: u32) -> Self {
        let rate_per_mille = if rate_per_mille > 500 {
            500
        } else {
            rate_per_mille
        };
        Self {
            rate_per_mille,
            forward_step: Duration::ZERO,
        }
    }

    /// Also survives a step of the store's clock forward by up to `step`.
    #[must_use]
    pub const fn with_forward_step(mut self, step: Duration) -> Self {
        self.forward_step = step;
        self
    }

    /// What the rates make of `span` at most.
    #[must_use]
    pub fn share(self, span: Duration) -> Duration {
        span * self.rate_per_mille.min(500) / 1000
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The instant at which a lease that was asked for at `sent` ends for its holder.
#[must_use]
pub fn deadline(sent: Instant, ttl: Ttl, drift: Drift) -> Instant {
    let trusted = ttl.get().saturating_sub(drift.forward_step);
    let kept = trusted * (1000 - drift.rate_per_mille.min(500)) / 1000;
    sent.after(kept.saturating_sub(MARGIN))
}

/// The least validity that is worth handing to a caller: less, and the lock is given back.
#[must_use]
pub fn minimum(ttl: Ttl) -> Duration {
    (ttl.get() / 10).max(Duration::from_millis(10))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn b07_never_longer_than_the_ttl_less_what_passed_less_the_allowance(
            sent: u64,
            millis in 100_u64..=86_400_000,
            rate in 0_u32..=1000,
            step in 0_u64..100_000_000,
        ) {
            let sent = Instant::from_nanos(sent);
            let ttl = Ttl::from_millis(millis).expect("in range");
            let drift = Drift::new(rate).with_forward_step(Duration::from_millis(step));
            let deadline = deadline(sent, ttl, drift);
            prop_assert!(deadline >= sent);
            let rate = u64::from(rate.min(500));
            let most = millis.saturating_sub(step) * 1_000_000 * (1000 - rate) / 1000;
            prop_assert!(deadline - sent <= Duration::from_nanos(most));
        }
    }

    #[test]
    fn the_usual_figures() {
        let ttl = Ttl::from_millis(10_000).expect("in range");
        let sent = Instant::from_nanos(5);
        assert_eq!(
            deadline(sent, ttl, Drift::DEFAULT) - sent,
            Duration::from_millis(9_898)
        );
        assert_eq!(
            deadline(sent, ttl, Drift::SLEWING) - sent,
            Duration::from_millis(8_298)
        );
        assert_eq!(minimum(ttl), Duration::from_secs(1));
        assert_eq!(minimum(Ttl::MIN), Duration::from_millis(10));
    }
}
