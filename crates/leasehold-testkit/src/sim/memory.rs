//! The memory store behind a faulty wire.

use std::sync::Arc;

use leasehold::backend::{Backend, memory::Memory};

use super::{
    plan::Event,
    stage::{Setting, Stage},
    weather::Weather,
    wire::Wire,
};

/// The memory store, and a way to it for each client that loses, delays and repeats messages.
pub(super) struct Ether {
    store: Memory,
    weather: Arc<Weather>,
    setting: Setting,
}

impl Ether {
    pub(super) fn new(setting: &Setting) -> Self {
        Self {
            store: Memory::with_clock(setting.clocks[0].clone()),
            weather: Arc::new(Weather::new(setting.plan.faults.clone())),
            setting: setting.clone(),
        }
    }
}

impl Stage for Ether {
    type Way = Wire;

    async fn enter(&self, client: usize) -> Wire {
        Wire::new(client, &self.store, &self.weather, &self.setting)
    }

    async fn befall(&self, event: &Event) -> Vec<String> {
        let name = match event {
            Event::Vanish(name) => {
                self.store.lose(name);
                name
            }
            Event::Revoke(name) => {
                self.store.revoke(name);
                name
            }
            _ => return Vec::new(),
        };
        vec![(*name).to_owned()]
    }

    async fn trouble(&self) {}

    fn clear(&self) {
        self.weather.clear();
    }

    async fn left(&self) -> Vec<(String, String)> {
        let entries = self.store.list("", None).await.unwrap().entries;
        let found = entries.into_iter();
        found
            .map(|entry| {
                let value = format!("{:?} {:?}", entry.holders, entry.waiters);
                (entry.name, value)
            })
            .collect()
    }
}
