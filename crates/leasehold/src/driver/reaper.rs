//! Finishes the releases nobody waits for: dropped guards, cancelled acquisitions, unanswered
//! releases.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold_core::{Instant, Name, Owner, backoff::Backoff};
use tokio::{
    sync::{Notify, Semaphore, mpsc},
    task::JoinSet,
};

use super::Shared;

/// How many releases are under way at once; more wait their turn.
const AT_ONCE: usize = 256;

/// One release to finish.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: Name,
    pub(super) owner: Owner,
    pub(super) min_hold: Option<Duration>,
    /// When the lease is surely over: after that there is nothing to release.
    pub(super) until: Instant,
    pub(super) busy: Busy,
}

impl Drop for Job {
    /// Whatever ended it before the store had answered: its runtime may be gone.
    fn drop(&mut self) {
        if !self.busy.confirmed {
            self.busy
                .progress
                .unconfirmed
                .fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// How much is under way that a shutdown waits for: queued releases and acquisitions.
#[derive(Debug, Default)]
pub(super) struct Progress {
    left: AtomicUsize,
    /// Releases that nobody tries any more, over all time.
    unconfirmed: AtomicUsize,
    changed: Notify,
    /// The connection is back: what is between two tries should try now.
    retry: Notify,
}

impl Progress {
    /// Waits until nothing is left.
    pub(super) async fn idle(&self) {
        loop {
            let changed = self.changed.notified();
            if self.left.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn unconfirmed(&self) -> usize {
        self.unconfirmed.load(Ordering::Acquire)
    }

    pub(super) fn retry_now(&self) {
        self.retry.notify_waiters();
    }
}

/// Something under way, until it is dropped.
#[derive(Debug)]
pub(super) struct Busy {
    progress: Arc<Progress>,
    confirmed: bool,
}

impl Busy {
    pub(super) fn new(progress: &Arc<Progress>) -> Self {
        progress.left.fetch_add(1, Ordering::AcqRel);
        Self {
            progress: Arc::clone(progress),
            confirmed: false,
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.progress.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.progress.changed.notify_waiters();
        }
    }
}

/// The task.
#[derive(Debug)]
pub(super) struct Reaper {
    shared: Arc<Shared>,
    jobs: mpsc::UnboundedReceiver<Job>,
}

impl Reaper {
    pub(super) const fn new(shared: Arc<Shared>, jobs: mpsc::UnboundedReceiver<Job>) -> Self {
        Self { shared, jobs }
    }

    /// Runs until the client is gone and every release is finished.
    pub(super) async fn run(mut self) {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut under_way = JoinSet::new();
        loop {
            tokio::select! { biased;
                Some(_) = under_way.join_next() => {}
                job = self.jobs.recv() => match job {
                    Some(job) => {
                        let (shared, turns) = (Arc::clone(&self.shared), Arc::clone(&turns));
                        under_way.spawn(async move {
                            finish(&shared, job, &turns).await;
                        });
                    }
                    None => break,
                },
            }
        }
        while under_way.join_next().await.is_some() {}
    }
}

/// Releases until the store answers or nothing can be left to release.
async fn finish(shared: &Shared, mut job: Job, turns: &Semaphore) {
    const BASE: Duration = Duration::from_millis(50);
    const CAP: Duration = Duration::from_secs(1);
    let mut backoff = Backoff::new(BASE, CAP);
    loop {
        // A turn for each attempt: those that wait to try again are in nobody's way.
        let turn = turns.acquire().await;
        let answer = attempt(shared, &job).await;
        drop(turn);
        let Err(failure) = answer else {
            job.busy.confirmed = true;
            return;
        };
        let now = shared.clock.now();
        if !failure.is_passing() || now >= job.until {
            tracing::warn!(
                target: "leasehold", name = %job.name, error = %failure,
                "release unconfirmed; the name may stay taken until its TTL"
            );
            return;
        }
        let retry = shared.reaping.retry.notified();
        let pause = now.after(backoff.next(shared.random.bits()));
        tokio::select! { biased; () = retry => {} () = shared.clock.sleep_until(pause) => {} }
    }
}

async fn attempt(shared: &Shared, job: &Job) -> Result<(), crate::backend::Failure> {
    let until = shared.clock.now().after(shared.settings.call_limit);
    tokio::select! { biased;
        answer = shared.backend.release(&job.name, &job.owner, job.min_hold) => answer.map(|_| ()),
        () = shared.clock.sleep_until(until) => Err(shared.no_answer("the release")),
    }
}
