//! What goes wrong.

use super::{Ask, Call, NAMES, Phase, World};
use leasehold_tests::simulated::Data;

impl World {
    pub(super) fn die(&mut self, client: usize) {
        self.clients[client].alive = false;
        let line = std::mem::take(&mut self.clients[client].line);
        self.orphans.extend(line.into_iter().map(|call| Call {
            wanted: false,
            ..call
        }));
        // Half of the dead leave a connection behind that the server takes for alive.
        if self.dice(2) == 0 {
            let channel = self.clients[client].channel.clone();
            self.server.store().subscribed.remove(channel.as_bytes());
        }
        self.join();
    }

    /// The connection breaks: what was on its way comes late or never, and everything is asked
    /// anew on the next one.
    pub(super) fn break_off(&mut self, client: usize) {
        let line = std::mem::take(&mut self.clients[client].line);
        let ended = self.dice(2) == 0;
        let mut releases = Vec::new();
        for call in line {
            if let Ask::Release { .. } = call.ask {
                releases.push(call.op);
            }
            // Where the old connection could be ended at the server, nothing of it comes late.
            if !ended {
                self.orphans.push(Call {
                    wanted: false,
                    ..call
                });
            }
        }
        for op in self.ops_of(client, &[Phase::Waiting, Phase::Trying]) {
            self.ask(op);
        }
        for op in self.ops_of(client, &[Phase::Confirming]) {
            self.send(op, Ask::Renew);
        }
        for op in releases {
            self.send(op, Ask::Release { hold: 0 });
        }
    }

    pub(super) fn go_deaf_or_hear(&mut self, client: usize) {
        if self.clients[client].mute {
            return;
        }
        let channel = self.clients[client].channel.clone().into_bytes();
        let deaf = self.server.store().subscribed.remove(&channel);
        if deaf && self.dice(2) == 0 {
            return;
        }
        self.server.store().subscribed.insert(channel);
        for op in self.ops_of(client, &[Phase::Waiting]) {
            self.ask(op);
        }
    }

    pub(super) fn stranger(&mut self) {
        let name = self.dice(NAMES);
        let key = self.keys[name].lock.clone().into_bytes();
        let now = self.now() / 1000;
        let mut store = self.server.store();
        match &self.strangers[name] {
            Some((data, _)) if store.get(&key).is_some_and(|(there, _)| there == data) => {
                store.remove(&key);
                drop(store);
                self.strangers[name] = None;
            }
            _ if store.get(&key).is_none() => {
                drop(store);
                let value = format!("stranger {}", self.step).into_bytes();
                let (data, end) = match self.dice(6) {
                    0 => (Data::Hash([(value.clone(), value)].into()), None),
                    1 => (Data::Text(value), None),
                    _ => (Data::Text(value), Some(now + self.choose(&[10, 40]))),
                };
                self.server.store().put(&key, data.clone(), end);
                self.strangers[name] = Some((data, end));
            }
            _ => {
                drop(store);
                // An administrator deletes the lock, and guards are wrong from then on.
                if self.setup.faults && self.dice(3) == 0 {
                    self.server.store().remove(&key);
                    self.kept[name] = 0;
                    self.revoke(name);
                }
            }
        }
    }

    fn revoke(&mut self, name: usize) {
        for op in self.ops.iter_mut().filter(|op| op.name == name) {
            op.revoked = true;
        }
    }

    pub(super) fn toggle(&mut self) {
        let mut store = self.server.store();
        match self.random.bits() % 4 {
            0 => store.full = true,
            1 => store.replica = true,
            _ => (store.full, store.replica) = (false, false),
        }
    }

    /// The next call of a line is executed twice, the second time late.
    pub(super) fn repeat(&mut self, client: usize) {
        if let Some(call) = self.clients[client].line.front() {
            self.orphans.push(Call {
                wanted: false,
                ..*call
            });
        }
    }
}
