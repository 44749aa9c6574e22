//! Taking several locks at once.

use std::time::Duration;

use leasehold::{Guard, MultiGuard};
use tokio::time::sleep;

use super::worker::Worker;
use crate::history::{Manner, What};

/// The numbers of the acquisitions in one lock of several begin here.
const FIRST: u64 = 500;

impl Worker {
    /// Takes all names there are, or none, and holds them for a while.
    pub(super) async fn take_several(&self) {
        let (dice, ttl) = (&self.dice, self.dice.pick(&self.ttls));
        let lock = self
            .client
            .lock_all(self.names.iter().copied())
            .with_ttl(Duration::from_millis(ttl))
            .with_label("several");
        for (at, name) in self.names.iter().enumerate() {
            let (name, manner) = ((*name).into(), Manner::Exclusive);
            let renewed = true;
            self.note_part(
                at,
                What::Asked {
                    name,
                    manner,
                    renewed,
                },
            );
        }
        // In calm, what is taken on the way to all of them would look like a name left free.
        let guard = if self.calm || dice.chance(500) {
            lock.try_acquire().await.ok().flatten()
        } else {
            lock.acquire_timeout(dice.millis(2000)).await.ok()
        };
        match guard {
            Some(guard) => self.hold_several(guard).await,
            None => (0..self.names.len()).for_each(|at| self.note_part(at, What::Refused)),
        }
    }

    async fn hold_several(&self, guard: MultiGuard) {
        for part in guard.guards() {
            let (token, deadline) = (
                part.fencing_token().get(),
                self.deadline(part, &self.client),
            );
            self.note_part(self.place(part), What::Granted { token, deadline });
        }
        tokio::select! {
            biased;
            _ = guard.lost() => {}
            () = sleep(self.dice.millis(200)) => {}
        }
        for part in guard.guards() {
            let deadline = self.deadline(part, &self.client);
            self.note_part(self.place(part), What::Release { deadline });
        }
        if self.dice.chance(700) {
            let _ = guard.release().await;
        }
    }

    fn place(&self, part: &Guard) -> usize {
        let mut names = self.names.iter();
        names
            .position(|name| *name == part.name().as_str())
            .expect("one of those asked for")
    }

    fn note_part(&self, at: usize, what: What) {
        let op = self.op * 1000 + FIRST + at as u64;
        self.history.record(&self.process, op, what);
    }
}
