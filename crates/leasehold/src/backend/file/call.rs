//! A call on its way to the thread that writes.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use tokio::sync::oneshot;

use super::{super::Failure, batch::Batch};

/// Tells the caller how it went, once it is known whether the transaction was committed.
pub(super) type Reply = Box<dyn FnOnce(Option<Failure>) + Send>;

type Work = Box<dyn FnOnce(Result<&mut Batch<'_>, Failure>) -> Reply + Send>;

/// Something to do inside a transaction.
pub(super) struct Call {
    /// Who decides whether it still happens.
    pub(super) claim: Arc<Claim>,
    /// About how many entries it changes.
    pub(super) weight: usize,
    /// Does it, or passes on why it cannot be done.
    pub(super) work: Work,
}

impl Call {
    pub(super) fn new<T: Send + 'static>(
        claim: Arc<Claim>,
        weight: usize,
        work: impl FnOnce(&mut Batch<'_>) -> Result<T, Failure> + Send + 'static,
        reply: oneshot::Sender<Result<T, Failure>>,
    ) -> Self {
        let work = move |batch: Result<&mut Batch<'_>, Failure>| -> Reply {
            let answer = batch.and_then(work);
            Box::new(move |failure| {
                // A caller that no longer listens has been dropped, and deals with it later.
                let _ = reply.send(failure.map_or(answer, Err));
            })
        };
        Self {
            claim,
            weight,
            work: Box::new(work),
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("claim", &self.claim)
            .field("weight", &self.weight)
            .finish_non_exhaustive()
    }
}

/// Whether a call has begun: the thread and a caller that loses patience agree on it here.
#[derive(Debug, Default)]
pub(super) struct Claim(AtomicU8);

impl Claim {
    const WAITING: u8 = 0;
    const BEGUN: u8 = 1;
    const ABANDONED: u8 = 2;

    /// Begins the call: `false` when it was given up.
    pub(super) fn begin(&self) -> bool {
        self.change(Self::BEGUN)
    }

    /// Gives the call up: `true` when it has not begun and never will.
    pub(super) fn abandon(&self) -> bool {
        self.change(Self::ABANDONED)
    }

    fn change(&self, to: u8) -> bool {
        let (from, order) = (Self::WAITING, Ordering::SeqCst);
        self.0.compare_exchange(from, to, order, order).is_ok()
    }
}
