//! In a crowd, one node is asked first.
//!
//! When a lock comes free, many ask at once, and if all nodes are asked at once, the votes split.
//! So those that know of a crowd ask the same node first, and the others only once that one has
//! given its vote: whoever it refuses has cost one request and is in nobody's way. It is the first
//! in the list that answers quickly. One that is slow all the same delays by a moment, and clients
//! that disagree about which is first lose what this gains, and nothing else: who wins is decided
//! by the ballot alone.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::clock::Clock;

/// What the lanes of one attempt pass on their way to their nodes.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    first: Option<usize>,
    /// How long the first is waited for.
    patience: Duration,
    open: Arc<CancellationToken>,
}

impl Gate {
    /// A gate that the lane to the node `first` passes at once, and the others when that has a vote
    /// or failed, or has not answered for so long; without a first, all at once.
    pub(super) fn new(first: Option<usize>, patience: Duration) -> Self {
        let open = CancellationToken::new();
        if first.is_none() {
            open.cancel();
        }
        let open = Arc::new(open);
        Self {
            first,
            patience,
            open,
        }
    }

    pub(super) fn is_first(&self, at: usize) -> bool {
        self.first == Some(at)
    }

    /// Whether the others have not been let go.
    pub(super) fn is_shut(&self) -> bool {
        !self.open.is_cancelled()
    }

    /// Lets the others go.
    pub(super) fn open(&self) {
        self.open.cancel();
    }

    /// Waits until the lane to the node `at` may go.
    pub(super) async fn pass(&self, at: usize, clock: &Clock) {
        if self.is_first(at) || self.open.is_cancelled() {
            return;
        }
        let late = clock.now().after(self.patience);
        tokio::select! { biased;
            () = self.open.cancelled() => {}
            () = clock.sleep_until(late) => self.open(),
        }
    }
}
