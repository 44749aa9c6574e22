//! Whether a node answers.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold_core::Instant;

/// How long a node may leave everything unanswered before it is not asked for more.
const PATIENCE: Duration = Duration::from_millis(300);

/// The requests to a node that are under way.
///
/// A node that hangs costs nothing but what was sent before it was noticed: requests would pile up
/// on it, each to be undone when it comes back.
#[derive(Debug, Default)]
pub(super) struct Traffic(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// When it last answered, or was first asked since.
    quiet_since: Option<Instant>,
    /// How long answers take of late.
    usual: Option<Duration>,
}

impl Traffic {
    /// A request is sent.
    pub(super) fn begin(&self, now: Instant) {
        let mut state = self.state();
        state.under_way += 1;
        if state.under_way == 1 {
            state.quiet_since = Some(now);
        }
    }

    /// A request that was sent at `begun` is answered, or given up.
    pub(super) fn end(&self, begun: Instant, now: Instant) {
        let mut state = self.state();
        state.under_way = state.under_way.saturating_sub(1);
        state.quiet_since = Some(now);
        let took = now - begun;
        state.usual = Some(state.usual.map_or(took, |usual| (usual * 7 + took) / 8));
    }

    /// How long it takes to answer of late; none if it never has.
    pub(super) fn usual(&self) -> Option<Duration> {
        self.state().usual
    }

    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        let state = self.state();
        let quiet = state
            .quiet_since
            .map_or(Duration::ZERO, |since| now - since);
        state.under_way > 0 && quiet > PATIENCE
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_stuck_that_is_asked_and_does_not_answer() {
        let at = |millis| Instant::ORIGIN.after(Duration::from_millis(millis));
        let traffic = Traffic::default();
        assert!(!traffic.is_stuck(at(10_000)));
        traffic.begin(at(10_000));
        traffic.begin(at(10_200));
        assert!(!traffic.is_stuck(at(10_300)));
        assert!(traffic.is_stuck(at(10_301)));
        traffic.end(at(10_000), at(10_400));
        assert!(!traffic.is_stuck(at(10_500)));
        traffic.end(at(10_490), at(10_500));
        assert!(!traffic.is_stuck(at(99_000)));
        assert!(
            traffic
                .usual()
                .is_some_and(|usual| usual > Duration::from_millis(300))
        );
    }
}
