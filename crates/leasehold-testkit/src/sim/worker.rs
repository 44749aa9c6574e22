//! A task that acquires, holds and releases, in all the ways there are.

use std::time::Duration;

use leasehold::{Client, ErrorKind, Guard, Mode, Renew};
use tokio::time::sleep;

use super::{cancel::drop_after, claim::Claim, dice::Dice, plan::Plan, target::Target};
use crate::history::{History, What};

/// One task.
pub(super) struct Worker {
    number: usize,
    pub(super) dice: Dice,
    pub(super) client: Client,
    other: Client,
    pub(super) history: History,
    pub(super) names: Vec<&'static str>,
    pub(super) ttls: Vec<u64>,
    rounds: u32,
    overrun: bool,
    pub(super) calm: bool,
    /// The number of its current acquisition.
    pub(super) op: u64,
    pub(super) process: String,
    /// The process of the other client.
    neighbour: String,
}

impl Worker {
    pub(super) fn new(
        number: usize,
        plan: &Plan,
        client: &Client,
        other: &Client,
        history: &History,
    ) -> Self {
        Self {
            number,
            dice: Dice::new(plan.seed.rotate_left(40) ^ number as u64),
            client: client.clone(),
            other: other.clone(),
            history: history.clone(),
            names: plan.names.clone(),
            ttls: plan.ttls.clone(),
            rounds: plan.rounds,
            overrun: plan.overrun,
            calm: plan.is_calm(),
            op: 0,
            process: format!("c{}", number % plan.clients + 1),
            neighbour: format!("c{}", (number + 1) % plan.clients + 1),
        }
    }

    pub(super) async fn run(mut self) {
        sleep(self.dice.millis(50)).await;
        for round in 0..self.rounds {
            self.op = (self.number * 1000) as u64 + u64::from(round);
            if self.names.len() > 1 && self.dice.chance(200) {
                self.take_several().await;
            } else {
                self.acquire_and_hold().await;
            }
            sleep(self.dice.millis(300)).await;
        }
    }

    async fn acquire_and_hold(&self) {
        let dice = &self.dice;
        let (name, ttl) = (dice.pick(&self.names), dice.pick(&self.ttls));
        let renew = match dice.below(8) {
            _ if self.overrun => Renew::Never,
            0 => Renew::Never,
            1 => Renew::AtMost(dice.millis(2000)),
            2 => Renew::WhileProgress(Duration::from_millis(300)),
            _ => Renew::UntilReleased,
        };
        let label = format!("{}/{}", self.process, self.op);
        let target =
            Target::new(&self.client, name, dice).with(Duration::from_millis(ttl), renew, &label);
        self.note(What::Asked {
            name: name.into(),
            manner: target.manner(),
            renewed: target.is_kept(renew),
        });
        match self.acquire(&target).await {
            Some(guard) => self.hold(guard, ttl).await,
            None => self.note(What::Refused),
        }
    }

    async fn acquire(&self, target: &Target) -> Option<Claim> {
        let dice = &self.dice;
        match dice.below(10) {
            0 => target.attempt().await,
            1 | 2 => target.within(dice.millis(3000)).await,
            3 => drop_after(target.wait(), dice.below(12) as u32).await?,
            4 => tokio::time::timeout(dice.millis(1000), target.wait())
                .await
                .ok()?,
            _ => target.wait().await,
        }
    }

    async fn hold(&self, guard: Claim, ttl: u64) {
        let dice = &self.dice;
        let (token, deadline) = (
            guard.fencing_token().get(),
            self.deadline(&guard, &self.client),
        );
        self.note(What::Granted { token, deadline });
        for _ in 0..dice.below(4) {
            let most = if dice.chance(200) {
                ttl.min(2000) * 2
            } else {
                150
            };
            let least = if self.overrun { ttl * 2 } else { 0 };
            let span = Duration::from_millis(least) + dice.millis(most);
            if self.is_lost(&guard, &self.client, span).await {
                break;
            }
            guard.progress();
            if dice.chance(100) {
                let _ = guard.extend(Duration::from_millis(ttl)).await;
            }
        }
        self.end(guard).await;
    }

    /// Works for a while under the guard of `client`; whether its loss was told meanwhile.
    async fn is_lost(&self, guard: &Guard, client: &Client, span: Duration) -> bool {
        let lost = tokio::select! {
            biased;
            _ = guard.lost() => true,
            () = sleep(span) => false,
        };
        let deadline = self.deadline(guard, client);
        if lost {
            self.note(What::Lost { deadline });
        } else if guard.is_held() {
            self.note(What::Held { deadline });
        }
        lost
    }

    async fn end(&self, guard: Claim) {
        let dice = &self.dice;
        match dice.below(8) {
            0 | 1 => {
                self.note_release(&guard);
                drop(guard);
            }
            2 => {
                self.note_release(&guard);
                drop_after(guard.release(), dice.below(6) as u32).await;
            }
            3 => match guard {
                Claim::Lock(guard) if guard.mode() == Mode::Exclusive && dice.chance(500) => {
                    self.read_on(guard).await;
                }
                Claim::Lock(guard) => self.hand_over(guard).await,
                Claim::Lead(leadership) => {
                    let _ = leadership.proclaim("another value").await;
                    self.note_release(leadership.guard());
                }
            },
            _ => {
                self.note_release(&guard);
                let _ = guard.release().await;
            }
        }
    }

    /// Becomes a reader and holds for a while more.
    async fn read_on(&self, guard: Guard) {
        // Written before, for readers are let in before this one knows.
        let deadline = self.deadline(&guard, &self.client);
        self.note(What::Downgrading { deadline });
        let Ok(guard) = guard.downgrade().await else {
            return;
        };
        let deadline = self.deadline(&guard, &self.client);
        self.note(What::Downgraded { deadline });
        let span = self.dice.millis(100);
        self.is_lost(&guard, &self.client, span).await;
        self.note_release(&guard);
        let _ = guard.release().await;
    }

    /// Gives the lock to another client, which holds it for a while more.
    async fn hand_over(&self, guard: Guard) {
        // Written before, for an error releases the lock.
        self.note_release(&guard);
        let Ok(lease) = guard.into_lease().await else {
            return;
        };
        sleep(self.dice.millis(100)).await;
        // By turns, for one of them may have been shut down.
        let mut both = [
            (&self.other, &self.neighbour),
            (&self.client, &self.process),
        ]
        .into_iter()
        .cycle();
        let (guard, (client, by)) = loop {
            let heir = both.next().expect("a cycle has no end");
            match heir.0.adopt(lease.clone()).await {
                Ok(guard) => break (guard, heir),
                Err(error) if error.kind() == ErrorKind::Lost => return,
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        };
        let (deadline, by) = (self.deadline(&guard, client), by.clone());
        self.note(What::Adopted { by, deadline });
        self.is_lost(&guard, client, self.dice.millis(100)).await;
        let deadline = self.deadline(&guard, client);
        self.note(What::Release { deadline });
        let _ = guard.release().await;
    }

    fn note_release(&self, guard: &Guard) {
        self.note(What::Release {
            deadline: self.deadline(guard, &self.client),
        });
    }

    /// The deadline of a guard of `client`, on the history's clock.
    pub(super) fn deadline(&self, guard: &Guard, client: &Client) -> u64 {
        let (mine, deadline) = (client.clock().now(), guard.deadline());
        let now = self.history.now();
        if deadline > mine {
            let left = u64::try_from((deadline - mine).as_nanos()).unwrap_or(u64::MAX);
            now.saturating_add(left)
        } else {
            let past = u64::try_from((mine - deadline).as_nanos()).unwrap_or(u64::MAX);
            now.saturating_sub(past)
        }
    }

    fn note(&self, what: What) {
        self.history.record(&self.process, self.op, what);
    }
}
