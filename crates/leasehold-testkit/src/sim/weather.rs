//! What goes wrong on the way to the store, and when.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;

use super::plan::Faults;

/// What goes wrong, until it clears up.
#[derive(Debug)]
pub struct Weather {
    faults: Faults,
    clear: AtomicBool,
    began: Instant,
}

impl Weather {
    /// Such weather from now on.
    #[must_use]
    pub fn new(faults: Faults) -> Self {
        Self {
            faults,
            clear: AtomicBool::new(false),
            began: Instant::now(),
        }
    }

    /// Nothing goes wrong from now on.
    pub fn clear(&self) {
        self.clear.store(true, Ordering::Relaxed);
    }

    /// What goes wrong.
    #[must_use]
    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The odds as they are now.
    #[must_use]
    pub fn odds(&self, odds: u32) -> u32 {
        if self.clear.load(Ordering::Relaxed) {
            0
        } else {
            odds
        }
    }

    /// Whether this client cannot reach the store now.
    #[must_use]
    pub fn is_cut_off(&self, client: usize) -> bool {
        let now = self.began.elapsed();
        let mut outages = self.faults.outages.iter();
        !self.clear.load(Ordering::Relaxed)
            && outages.any(|(who, from, to)| *who == client && (*from..*to).contains(&now))
    }
}
