//! What goes wrong on the way to the store, and when.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{sync::Notify, time::Instant};

use super::plan::Faults;

/// What goes wrong, until it clears up.
#[derive(Debug)]
pub(super) struct Weather {
    faults: Faults,
    clear: AtomicBool,
    began: Instant,
    /// The clients that were killed, and whether it is noticed that their connection is gone.
    killed: Mutex<BTreeMap<usize, bool>>,
    kills: Notify,
}

impl Weather {
    /// Such weather from now on.
    pub(super) fn new(faults: Faults) -> Self {
        Self {
            faults,
            clear: AtomicBool::new(false),
            began: Instant::now(),
            killed: Mutex::default(),
            kills: Notify::new(),
        }
    }

    /// Nothing goes wrong from now on.
    pub(super) fn clear(&self) {
        self.clear.store(true, Ordering::Relaxed);
    }

    /// A client's process is no more.
    pub(super) fn kill(&self, client: usize, is_noticed: bool) {
        self.killed.lock().unwrap().insert(client, is_noticed);
        self.kills.notify_waiters();
    }

    pub(super) fn is_killed(&self, client: usize) -> bool {
        self.killed.lock().unwrap().contains_key(&client)
    }

    /// Waits until the store knows that the client is gone.
    pub(super) async fn noticed(&self, client: usize) {
        loop {
            let kills = self.kills.notified();
            if self.killed.lock().unwrap().get(&client) == Some(&true) {
                return;
            }
            kills.await;
        }
    }

    pub(super) const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The odds as they are now.
    pub(super) fn odds(&self, odds: u32) -> u32 {
        if self.clear.load(Ordering::Relaxed) {
            0
        } else {
            odds
        }
    }

    /// Whether this client cannot reach the store now.
    pub(super) fn is_cut_off(&self, client: usize) -> bool {
        let now = self.began.elapsed();
        let mut outages = self.faults.outages.iter();
        !self.clear.load(Ordering::Relaxed)
            && outages.any(|(who, from, to)| *who == client && (*from..*to).contains(&now))
    }
}
