//! Renews what is held, in batches, and notices the deadlines that pass.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold_core::{
    Instant, Renewal, Renewed,
    lease::{Outcome, State},
};
use tokio::{
    sync::{Notify, mpsc::WeakUnboundedSender},
    task::JoinSet,
};

use super::{Shared, held::Held, reaper::Job};

/// The longest the watchdog sleeps while leases are held: after a suspend its timer is late by as
/// long as the machine slept, at most this much.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// The most leases in one call to the backend, which cuts them to its own size.
const BATCH: usize = 1024;

/// The leases that are held, by when something is to be done about them.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    plan: Mutex<Plan>,
    sooner: Notify,
}

#[derive(Debug, Default)]
struct Plan {
    by_time: BTreeMap<(Instant, u64), Arc<Held>>,
    /// When the watchdog will look next by itself; none while it waits to be told.
    wakes: Option<Instant>,
}

impl Schedule {
    /// Plans the next thing to do about `held`, or drops it if nothing is.
    pub(super) fn plan(&self, held: &Arc<Held>) {
        let mut plan = self.lock();
        plan.take_out(held);
        let Some(at) = held.wake_at() else { return };
        held.set_scheduled_at(Some(at));
        plan.by_time.insert((at, held.serial), Arc::clone(held));
        // A watchdog that looks in time anyway is not woken: an uncontended acquire and release
        // must not cost a switch to another thread.
        let told = plan.wakes.is_none_or(|wakes| at < wakes);
        drop(plan);
        if told {
            self.sooner.notify_one();
        }
    }

    pub(super) fn remove(&self, held: &Held) {
        self.lock().take_out(held);
    }

    /// The leases for which something is due at `now`, and with them those that are due soon, so
    /// that they share a batch.
    fn due(&self, now: Instant) -> Vec<Arc<Held>> {
        const SOON: Duration = Duration::from_secs(1);
        let mut plan = self.lock();
        if plan
            .by_time
            .first_key_value()
            .is_none_or(|((at, _), _)| *at > now)
        {
            return Vec::new();
        }
        let later = plan.by_time.split_off(&(now.after(SOON), u64::MAX));
        let due = mem::replace(&mut plan.by_time, later);
        for held in due.values() {
            held.set_scheduled_at(None);
        }
        due.into_values().collect()
    }

    /// When to look again; none when nothing is held.
    fn next_look(&self, now: Instant) -> Option<Instant> {
        let mut plan = self.lock();
        let first = plan.by_time.first_key_value().map(|((at, _), _)| *at);
        plan.wakes = first.map(|at| at.min(now.after(LONGEST_NAP)));
        plan.wakes
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().by_time.len()
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    fn take_out(&mut self, held: &Held) {
        if let Some(at) = held.scheduled_at() {
            self.by_time.remove(&(at, held.serial));
            held.set_scheduled_at(None);
        }
    }
}

impl Shared {
    /// Checks every lease against the store now: the connection was lost and is back.
    pub(super) fn verify_all(&self) {
        let now = self.clock.now();
        for held in self.registry.held() {
            held.verify(now);
            self.schedule.plan(&held);
        }
        self.registry.wake_all();
        self.reaping.retry_now();
    }
}

/// Runs for ever; the driver drops it with the client.
pub(super) async fn run(shared: Arc<Shared>, reaper: WeakUnboundedSender<Job>) {
    let mut calls = JoinSet::new();
    loop {
        let now = shared.clock.now();
        for batch in batches(&shared, now) {
            calls.spawn(renew(Arc::clone(&shared), reaper.clone(), batch));
        }
        let sooner = shared.schedule.sooner.notified();
        let look = shared
            .schedule
            .next_look(shared.clock.now())
            .unwrap_or(Instant::MAX);
        tokio::select! { biased;
            () = sooner => {}
            Some(_) = calls.join_next() => {}
            () = shared.clock.sleep_until(look) => {}
        }
    }
}

/// Leases that are renewed in one call.
struct Batch {
    held: Vec<Arc<Held>>,
    renewals: Vec<Renewal>,
    /// The tightest limit of its leases.
    limit: Duration,
}

impl Batch {
    /// Takes out what was released or lost since the batch was put together, so that no renewal is
    /// sent after a release.
    fn drop_ended(&mut self, now: Instant) {
        let (held, renewals) = (mem::take(&mut self.held), mem::take(&mut self.renewals));
        (self.held, self.renewals) = held
            .into_iter()
            .zip(renewals)
            .filter(|(held, _)| held.observe(now).is_held())
            .unzip();
    }
}

/// Begins the renewals that are due, in batches of leases that can wait about equally long.
fn batches(shared: &Shared, now: Instant) -> Vec<Batch> {
    let mut by_limit: BTreeMap<u32, Vec<Batch>> = BTreeMap::new();
    for held in shared.schedule.due(now) {
        let renewal = held
            .observe(now)
            .is_held()
            .then(|| held.begin_renewal(now))
            .flatten();
        if let Some((renewal, limit)) = renewal {
            let class = limit.as_millis().max(1).ilog2();
            let batches = by_limit.entry(class).or_default();
            if batches.last().is_none_or(|batch| batch.held.len() == BATCH) {
                batches.push(Batch {
                    held: Vec::new(),
                    renewals: Vec::new(),
                    limit,
                });
            }
            if let Some(batch) = batches.last_mut() {
                batch.limit = batch.limit.min(limit);
                batch.renewals.push(renewal);
                batch.held.push(Arc::clone(&held));
            }
        }
        // A lease under renewal is still to be looked at when its deadline passes.
        shared.schedule.plan(&held);
    }
    by_limit.into_values().flatten().collect()
}

async fn renew(shared: Arc<Shared>, reaper: WeakUnboundedSender<Job>, mut batch: Batch) {
    // Read before the call: what the store grants counts from here at the earliest.
    let sent = shared.clock.now();
    batch.drop_ended(sent);
    if batch.held.is_empty() {
        return;
    }
    let answers = tokio::select! { biased;
        answers = shared.backend.renew(&batch.renewals) => answers,
        () = shared.clock.sleep_until(sent.after(batch.limit)) => Vec::new(),
    };
    let now = shared.clock.now();
    let mut answers = answers.into_iter();
    for held in &batch.held {
        let answer = answers
            .next()
            .unwrap_or_else(|| Err(shared.no_answer("the renewal")));
        let outcome = match &answer {
            Ok(answer) => Outcome::Answered(*answer),
            Err(_) => Outcome::Failed,
        };
        let was_suspect = matches!(held.observe(now), State::Suspect { .. });
        let state = held.renewed(now, sent, outcome, shared.random.bits());
        if let (Err(failure), State::Suspect { .. }, false) = (&answer, state, was_suspect) {
            tracing::warn!(
                target: "leasehold", name = %held.name, error = %failure,
                left_ms = u64::try_from((held.deadline() - now).as_millis()).unwrap_or(u64::MAX),
                "renewal failing"
            );
        }
        if matches!(answer, Ok(Renewed::NotOurs | Renewed::Missing)) && state != State::Released {
            // What the store no longer has may still wait in its queue, or leave one asleep: a
            // release settles it, whatever the guard's owner does.
            shared.hand_to(&reaper, &held.name, &held.owner, held.longest());
        }
        shared.schedule.plan(held);
    }
    for held in &batch.held {
        republish(&shared, held).await;
    }
}

/// Keeps what a holder published alive with its lease. That it fails changes nothing for the lease:
/// it is done again with the next renewal.
async fn republish(shared: &Shared, held: &Held) {
    let Some(note) = held.note() else { return };
    let now = shared.clock.now();
    if !held.observe(now).is_held() {
        return;
    }
    let renewal = held.renewal(held.ttl());
    let until = now.after(shared.settings.call_limit).min(held.deadline());
    tokio::select! { biased;
        _ = shared.backend.annotate(&renewal, Some(&note)) => {}
        () = shared.clock.sleep_until(until) => {}
    }
}
