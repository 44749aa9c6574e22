//! What a schedule is played on.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use leasehold::{backend::Backend, clock::Clock};
use tokio::sync::Notify;

use super::plan::{Event, Plan};
use crate::history::{History, What};

/// A store, the ways of the clients to it, and what befalls them.
pub trait Stage: Send + Sync {
    /// A client's way to the store.
    type Way: Backend;

    /// The way of client number `client`, from 1.
    fn enter(&self, client: usize) -> impl Future<Output = Self::Way> + Send;

    /// What an event does to the store. Answers the names that nobody holds any more.
    fn befall(&self, event: &Event) -> impl Future<Output = Vec<String>> + Send;

    /// What goes wrong by itself, until the faults end.
    fn trouble(&self) -> impl Future<Output = ()> + Send;

    /// Nothing goes wrong from now on.
    fn clear(&self);

    /// What is in the store: names, and what is left of them.
    fn left(&self) -> impl Future<Output = Vec<(String, String)>> + Send;
}

/// What all parts of a schedule know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// The schedule.
    pub plan: Arc<Plan>,
    /// The store's clock, which is the history's, and then each client's.
    pub clocks: Vec<Clock>,
    /// What happens.
    pub history: History,
    /// Which clients there still are.
    pub lives: Arc<Lives>,
}

impl Setting {
    /// Writes down that nobody holds `name` any more, whatever they think.
    pub fn note_freed(&self, name: &str) {
        let longest = self.plan.longest().as_nanos();
        let until = self.history.now() + u64::try_from(longest).unwrap_or(u64::MAX);
        let name = name.into();
        self.history.record("-", 0, What::Freed { name, until });
    }

    pub(super) fn new(plan: &Plan) -> Self {
        let clocks: Vec<Clock> = (0..=plan.clients).map(|_| Clock::virtual_time()).collect();
        Self {
            plan: Arc::new(plan.clone()),
            history: History::new(clocks[0].clone()),
            clocks,
            lives: Arc::default(),
        }
    }
}

/// The clients that were killed.
#[derive(Debug, Default)]
pub struct Lives {
    /// And whether it is noticed that their connection is gone.
    killed: Mutex<BTreeMap<usize, bool>>,
    kills: Notify,
}

impl Lives {
    /// A client's process is no more.
    pub(super) fn kill(&self, client: usize, is_noticed: bool) {
        self.killed.lock().unwrap().insert(client, is_noticed);
        self.kills.notify_waiters();
    }

    /// Whether the client's process is no more.
    #[must_use]
    pub fn is_killed(&self, client: usize) -> bool {
        self.killed.lock().unwrap().contains_key(&client)
    }

    /// Waits until the store knows that the client is gone.
    pub async fn noticed(&self, client: usize) {
        loop {
            let kills = self.kills.notified();
            if self.killed.lock().unwrap().get(&client) == Some(&true) {
                return;
            }
            kills.await;
        }
    }
}
