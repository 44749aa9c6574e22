//! Locks that are a queue in the store, which they and we stand in.

use std::time::Duration;

use leasehold::{Client, ErrorKind, Guard, backend::HolderKind};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{foreign::Foreign, ground::LONG};

/// Two clients of theirs and two of ours at one store.
pub(crate) struct Queue {
    pub(crate) ours: [Client; 2],
    pub(crate) theirs: [Box<dyn Foreign>; 2],
    /// What they call what we call `name`.
    pub(crate) path: fn(&str) -> String,
    /// How many entries the store has of what they call `path`.
    pub(crate) entries: Box<dyn Fn(&str) -> usize>,
}

pub(crate) async fn check(mut queue: Queue) {
    queue.we_keep_them_out().await;
    queue.they_keep_us_out().await;
    queue.all_stand_in_one_queue().await;
    queue.what_their_death_leaves_is_noticed().await;
}

impl Queue {
    async fn we_keep_them_out(&mut self) {
        let guard = self.ours[0].lock("ours").acquire().await.unwrap();
        let path = (self.path)("ours");
        if let Some(took) = self.theirs[0].try_take(&path) {
            assert!(!took, "two hold");
            self.until_entries("ours", 1).await;
        }
        self.theirs[0].acquire(&path);
        self.until_entries("ours", 2).await;
        let status = self.ours[1].inspect("ours").await.unwrap();
        assert_eq!(status.holders.len(), 1, "{status:?}");
        assert_eq!(status.holders[0].kind, HolderKind::Held, "{status:?}");
        assert!(!self.theirs[0].has_said_held(), "two hold");
        guard.check().unwrap();
        guard.release().await.unwrap();
        self.theirs[0].expect_held();
        assert!(
            self.ours[0]
                .lock("ours")
                .try_acquire()
                .await
                .unwrap()
                .is_none()
        );
        self.theirs[0].release();
        self.until_entries("ours", 0).await;
    }

    async fn they_keep_us_out(&mut self) {
        self.theirs[0].acquire(&(self.path)("theirs"));
        self.theirs[0].expect_held();
        let lock = self.ours[0].lock("theirs");
        assert!(lock.try_acquire().await.unwrap().is_none());
        let readers = self.ours[0].rw_lock("theirs");
        assert!(readers.try_read().await.unwrap().is_none());
        let error = lock.acquire_timeout(Duration::from_millis(300)).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert_eq!(error.holder().unwrap().kind, HolderKind::Foreign);
        let status = self.ours[1].inspect("theirs").await.unwrap();
        assert_eq!(status.holders.len(), 1, "{status:?}");
        assert_eq!(status.holders[0].kind, HolderKind::Foreign, "{status:?}");
        // Nothing of ours is left.
        self.until_entries("theirs", 1).await;
        self.theirs[0].release();
        self.until_entries("theirs", 0).await;
        assert!(self.ours[0].inspect("theirs").await.unwrap().is_free());
    }

    /// They hold; we, they and we wait: each is served in its turn.
    async fn all_stand_in_one_queue(&mut self) {
        let path = (self.path)("queue");
        self.theirs[0].acquire(&path);
        self.theirs[0].expect_held();
        let second = self.we_wait(0, "queue", 2).await;
        self.theirs[1].acquire(&path);
        self.until_entries("queue", 3).await;
        let fourth = self.we_wait(1, "queue", 4).await;
        self.theirs[0].release();
        let guard = second.await.unwrap();
        let first_token = guard.fencing_token();
        assert!(!self.theirs[1].has_said_held() && !fourth.is_finished());
        guard.check().unwrap();
        guard.release().await.unwrap();
        self.theirs[1].expect_held();
        assert!(!fourth.is_finished(), "two hold");
        self.theirs[1].release();
        let guard = fourth.await.unwrap();
        assert!(guard.fencing_token() > first_token);
        guard.release().await.unwrap();
        self.until_entries("queue", 0).await;
    }

    async fn what_their_death_leaves_is_noticed(&mut self) {
        self.theirs[0].acquire(&(self.path)("death"));
        self.theirs[0].expect_held();
        let waiter = self.we_wait(0, "death", 2).await;
        self.theirs[0].kill();
        waiter.await.unwrap().release().await.unwrap();
        self.until_entries("death", 0).await;
    }

    /// Waits for the lock as a task of its own; returns once the store has so many entries.
    async fn we_wait(&self, who: usize, name: &str, entries: usize) -> JoinHandle<Guard> {
        let lock = self.ours[who].lock(name);
        let waiter = tokio::spawn(async move { lock.acquire_timeout(LONG).await.unwrap() });
        self.until_entries(name, entries).await;
        waiter
    }

    async fn until_entries(&self, name: &str, count: usize) {
        let (path, begun) = ((self.path)(name), Instant::now());
        loop {
            let entries = (self.entries)(&path);
            if entries == count {
                return;
            }
            assert!(begun.elapsed() < LONG, "{entries} of {name}, not {count}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}
