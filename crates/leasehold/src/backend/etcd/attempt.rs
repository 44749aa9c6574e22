//! Taking a lock: one attempt, or another look when something changed in front.

use std::sync::Arc;

use leasehold_core::{Attempt, Grant, Held, Mode, Request, Ttl, Wait};
use tokio::join;

use super::{
    form::Form,
    hub::{Hub, to_the_end},
    line::{Chance, Line, fencing},
    members::Trouble,
    own::{Asked, Place, Slot, Stage, Turn},
    proto::{Compare, RequestOp, TxnRequest, TxnResponse},
    sessions::Lease,
    store::{
        created_at, first, get, nested, nothing_after, put, range_of, revision, single, txn_of,
        unchanged, whole,
    },
};
use crate::backend::{Event, Failure, Sent};

/// How often what was read may have changed before it could be acted on.
const ROUNDS: usize = 16;

/// How much of the line is read by one that wants to hold alone: it holds only when it is first.
const FIRST: i64 = 32;

/// One attempt, once it is the owner's turn.
pub(super) struct Asking {
    pub(super) hub: Arc<Hub>,
    turn: Turn,
    pub(super) mode: Mode,
    ttl: Ttl,
    pub(super) why: Why,
    /// The lease has to be kept from here on.
    sent: leasehold_core::Instant,
}

#[derive(Clone, Copy)]
pub(super) enum Why {
    Try,
    Wait(Wait),
    /// Something changed in front of one that waits.
    News,
}

/// What the store said.
enum Seen {
    /// Nobody else was there: the entry was created, and holds.
    Alone(i64),
    Line(Line),
    /// The head of the line; the entry is there, and far behind.
    Head(Line),
    /// A withdrawal forbids whatever this owner still asks for.
    Withdrawn,
}

/// Takes the lock for `request.owner`, or says who has it.
pub(super) async fn acquire(hub: &Arc<Hub>, request: &Request) -> Result<Attempt, Failure> {
    let sent = hub.clock.now();
    let asking = Asking {
        turn: hub.turn(&request.name, &request.owner).await,
        hub: Arc::clone(hub),
        mode: request.mode,
        ttl: first_ttl(request),
        why: request.wait.map_or(Why::Try, Why::Wait),
        sent,
    };
    to_the_end(asking.run()).await
}

/// Looks again for one that waits, and tells it when it holds.
pub(super) async fn look_again(hub: Arc<Hub>, slot: Arc<Slot>) {
    let Some(turn) = hub.own.turn_of(Arc::clone(&slot)).await else {
        return;
    };
    // In this order: the waiter counts from when the attempt of that number was sent.
    let (form, seq) = {
        let mut state = slot.state();
        state.is_looking = false;
        match (&state.stage, &state.place) {
            (Stage::Waiting, Some(place)) => (place.form.clone(), state.seq),
            _ => return,
        }
    };
    let sent = hub.clock.now();
    let asking = Asking {
        hub: Arc::clone(&hub),
        turn,
        mode: form.mode,
        ttl: form.ttl,
        why: Why::News,
        sent,
    };
    let event = match asking.run().await {
        Ok(Attempt::Granted(grant)) => Hub::granted(&slot, grant.token, seq),
        Ok(Attempt::Queued(_)) => return,
        _ => Event::Again {
            owner: slot.owner.clone(),
        },
    };
    hub.tell(&slot.owner, event);
}

/// The TTL that is set at first: if the holder dies at once, its minimum hold is still kept.
pub(super) fn first_ttl(request: &Request) -> Ttl {
    let hold = request.min_hold.map(Ttl::clamped);
    hold.map_or(request.ttl, |hold| request.ttl.max(hold))
}

impl Asking {
    async fn run(self) -> Result<Attempt, Failure> {
        if self.slot().state().is_used_up() {
            return Ok(Attempt::Ended);
        }
        let mut answer = self.pursue().await;
        let mut state = self.slot().state();
        if let Err(failure) = &mut answer
            && state.asked.is_some()
        {
            // Whatever failed in the end: the entry may have been created before.
            state.uncertain = true;
            *failure = failure.clone().maybe_sent();
        }
        let is_empty = state.stage == Stage::Asking && !state.uncertain;
        drop(state);
        if is_empty {
            self.hub.close(self.slot());
        }
        answer
    }

    pub(super) const fn slot(&self) -> &Arc<Slot> {
        &self.turn.slot
    }

    async fn pursue(&self) -> Result<Attempt, Failure> {
        let mut lease = self.lease().await?;
        for _ in 0..ROUNDS {
            let (kept, seen) = join!(
                self.hub.keep(&lease, self.sent, self.ttl),
                self.look(&lease)
            );
            let seen = match seen {
                Err(Trouble::LeaseGone) => {
                    lease.end();
                    lease = self.lease().await?;
                    continue;
                }
                seen => seen?,
            };
            if !kept? {
                lease = self.lease().await?;
                continue;
            }
            let mut line = match seen {
                Seen::Withdrawn => return Ok(Attempt::Ended),
                Seen::Alone(created) => {
                    let form = self.form(true);
                    return Ok(self.hold(created, created, created, form, &lease));
                }
                Seen::Head(line) => return Ok(self.wait_behind(&line)),
                Seen::Line(line) => line,
            };
            for _ in 0..ROUNDS {
                line = match self.act(line, &lease).await {
                    Ok(Ok(attempt)) => return Ok(attempt),
                    Ok(Err(changed)) => changed,
                    Err(Trouble::LeaseGone) => break,
                    Err(trouble) => return Err(trouble.into()),
                };
            }
            if lease.until().is_none() {
                lease = self.lease().await?;
            }
        }
        Err(Failure::unavailable(
            "the queue changes faster than it is read",
        ))
    }

    /// The lease that the entry hangs on, or is to hang on.
    async fn lease(&self) -> Result<Arc<Lease>, Failure> {
        let now = self.hub.clock.now();
        let own = self
            .slot()
            .state()
            .place
            .as_ref()
            .map(|it| Arc::clone(&it.lease));
        let usable = |lease: &Arc<Lease>| {
            lease.serves(self.ttl) && lease.until().is_some_and(|until| until > now)
        };
        match own.filter(usable) {
            Some(lease) => Ok(lease),
            None => self.hub.lease(self.ttl).await,
        }
    }

    /// Creates the entry if it is not known to be there, and reads the queue.
    async fn look(&self, lease: &Arc<Lease>) -> Result<Seen, Trouble> {
        let (store, slot) = (&self.hub.store, self.slot());
        if slot.state().place.is_some() || matches!(self.why, Why::News) {
            return self.look_again().await;
        }
        let span = store.prefix.queue(slot.name.as_str());
        let gone = store.prefix.tombstone(&slot.owner);
        let create = |holds| put(&slot.key, self.form(holds).write(), lease.id);
        let queue = || get(whole(span.clone()));
        let otherwise = match self.why {
            Why::Wait(_) => vec![nested(TxnRequest {
                compare: vec![created_at(&slot.key, 0), created_at(&gone, 0)],
                success: vec![get(single(&gone)), create(false), queue()],
                failure: vec![get(single(&gone)), get(single(&slot.key)), queue()],
            })],
            Why::Try | Why::News if self.mode.is_shared() => vec![get(single(&gone)), queue()],
            Why::Try | Why::News => {
                vec![get(single(&gone)), get(first(span.clone(), FIRST))]
            }
        };
        let txn = TxnRequest {
            compare: vec![nothing_after(&span, 0), created_at(&gone, 0)],
            success: vec![create(true)],
            failure: otherwise,
        };
        let answer = self.send(&txn, lease).await?;
        let now = revision(answer.header.as_ref())?;
        if answer.succeeded {
            return Ok(Seen::Alone(now));
        }
        let (responses, at) = match self.why {
            Why::Wait(_) => (&txn_of(&answer.responses, 0)?.responses, 2),
            _ => (&answer.responses, 1),
        };
        if !range_of(responses, 0)?.kvs.is_empty() {
            return Ok(Seen::Withdrawn);
        }
        let range = range_of(responses, at)?;
        let line = store.read_line(&slot.name, now, range.kvs.clone());
        if range.more && line.entries.is_empty() {
            // All that was read is of names that lie below this one.
            return Ok(Seen::Line(store.line(&slot.name).await?));
        }
        Ok(Seen::Line(line))
    }

    /// Reads the queue in which the entry is.
    async fn look_again(&self) -> Result<Seen, Trouble> {
        let (store, slot) = (&self.hub.store, self.slot());
        if self.mode.is_shared() {
            return Ok(Seen::Line(store.line(&slot.name).await?));
        }
        let span = store.prefix.queue(slot.name.as_str());
        let txn = TxnRequest {
            success: vec![get(single(&slot.key)), get(first(span, FIRST))],
            ..TxnRequest::default()
        };
        let answer = store.txn(&txn).await?.value;
        let now = revision(answer.header.as_ref())?;
        let is_there = !range_of(&answer.responses, 0)?.kvs.is_empty();
        let range = range_of(&answer.responses, 1)?;
        let line = store.read_line(&slot.name, now, range.kvs.clone());
        let is_far = is_there && range.more && line.place(&slot.key).is_none();
        let is_watching = !slot.state().watches.is_empty() && !matches!(self.why, Why::News);
        Ok(match (is_far, is_watching) {
            (false, _) => Seen::Line(line),
            (true, true) => Seen::Head(line),
            (true, false) => Seen::Line(store.line(&slot.name).await?),
        })
    }

    /// Does what the line as it is allows; the line as it is now, if it changed meanwhile.
    async fn act(&self, line: Line, lease: &Arc<Lease>) -> Result<Result<Attempt, Line>, Trouble> {
        let slot = self.slot();
        let Some(at) = line.place(&slot.key) else {
            return self.act_from_outside(line, lease).await;
        };
        let entry = &line.entries[at];
        let Some(form) = entry.form().filter(|form| form.owner == slot.owner) else {
            return Ok(Ok(Attempt::Ended));
        };
        if form.kept {
            return Ok(Ok(Attempt::Ended));
        }
        if form.mode != self.mode {
            let limit = form.mode.limit();
            return Ok(Ok(Attempt::Conflict { limit }));
        }
        let holds = at < line.run();
        let phase = line.phase(at);
        let waited = slot.state().stage == Stage::Waiting;
        // Those behind a permit learn from this that it came in.
        let joins = phase.source.is_some()
            || waited && matches!(self.mode, Mode::Permit { .. }) && form.phase.is_none();
        let mut modified = entry.modified;
        let mut form = form.clone();
        if holds && joins || entry.lease != lease.id || form.ttl < self.ttl {
            form.ttl = form.ttl.max(self.ttl);
            if holds {
                form.phase = Some(fencing(phase.token));
                form.since = form.since.or(Some(self.hub.clock.wall_micros()));
            }
            let mut compare = vec![unchanged(&slot.key, entry.modified)];
            if let Some(source) = phase.source.filter(|_| holds) {
                let source = &line.entries[source];
                compare.push(unchanged(&source.key, source.modified));
            }
            let write = put(&slot.key, form.write(), lease.id);
            match self.write(compare, write, lease).await? {
                Ok(written) => modified = written,
                Err(changed) => return Ok(Err(changed)),
            }
        }
        if holds {
            return Ok(Ok(self.hold(
                entry.created,
                modified,
                phase.token,
                form,
                lease,
            )));
        }
        let place = Place {
            created: entry.created,
            modified,
            token: 0,
            form,
            lease: Arc::clone(lease),
        };
        Ok(Ok(self.wait(&line, at, place)))
    }

    /// The entry is not in the line.
    async fn act_from_outside(
        &self,
        line: Line,
        lease: &Arc<Lease>,
    ) -> Result<Result<Attempt, Line>, Trouble> {
        let slot = self.slot();
        if slot.state().place.take().is_some() {
            // It was, and is gone: its lease ended, or somebody removed it.
            slot.state().stage = Stage::Asking;
            if let Why::News = self.why {
                return Ok(Ok(Attempt::Ended));
            }
        }
        let held = || Held::new(line.change_in(), line.first_holder());
        match (self.why, line.chance(self.mode)) {
            (Why::Try, Chance::Conflict(limit)) => Ok(Ok(Attempt::Conflict { limit })),
            (Why::Try, Chance::Held) => Ok(Ok(Attempt::Held(held()))),
            (Why::News, _) => Ok(Ok(Attempt::Ended)),
            (Why::Wait(_), _) => match self.look(lease).await? {
                Seen::Line(line) | Seen::Head(line) => Ok(Err(line)),
                Seen::Withdrawn => Ok(Ok(Attempt::Ended)),
                Seen::Alone(created) => {
                    let form = self.form(true);
                    Ok(Ok(self.hold(created, created, created, form, lease)))
                }
            },
            (Why::Try, Chance::Free) => {
                let prefix = &self.hub.store.prefix;
                let gone = prefix.tombstone(&slot.owner);
                let span = prefix.queue(slot.name.as_str());
                let mut form = self.form(true);
                let mut compare = vec![nothing_after(&span, line.revision), created_at(&gone, 0)];
                let phase = line.phase(line.entries.len());
                if let Some(source) = phase.source.map(|at| &line.entries[at]) {
                    form.phase = Some(fencing(phase.token));
                    compare.push(unchanged(&source.key, source.modified));
                }
                let write = put(&slot.key, form.write(), lease.id);
                let created = match self.write(compare, write, lease).await? {
                    Ok(created) => created,
                    Err(changed) => return Ok(Err(changed)),
                };
                let token = form.phase.map_or(created, |_| phase.token);
                Ok(Ok(self.hold(created, created, token, form, lease)))
            }
        }
    }

    /// Writes under a condition; the line as it is now, if that does not hold.
    async fn write(
        &self,
        compare: Vec<Compare>,
        write: RequestOp,
        lease: &Arc<Lease>,
    ) -> Result<Result<i64, Line>, Trouble> {
        let (store, slot) = (&self.hub.store, self.slot());
        let txn = TxnRequest {
            compare,
            success: vec![write],
            failure: vec![get(whole(store.prefix.queue(slot.name.as_str())))],
        };
        let answer = self.send(&txn, lease).await?;
        let now = revision(answer.header.as_ref())?;
        if answer.succeeded {
            return Ok(Ok(now));
        }
        let kvs = range_of(&answer.responses, 0)?.kvs.clone();
        Ok(Err(store.read_line(&slot.name, now, kvs)))
    }

    /// Sends what may create the entry, and remembers when it may be executed later.
    async fn send(&self, txn: &TxnRequest, lease: &Arc<Lease>) -> Result<TxnResponse, Trouble> {
        let slot = self.slot();
        let before = slot.state().uncertain;
        {
            let mut state = slot.state();
            state.uncertain = true;
            state.asked = Some(Asked {
                lease: Arc::clone(lease),
                tombstone: self.hub.store.prefix.tombstone(&slot.owner),
            });
        }
        let answer = self.hub.store.txn(txn).await;
        let is_unclear = match &answer {
            Ok(answer) => answer.repeated,
            Err(Trouble::Failed(failure)) => failure.sent() == Sent::Maybe,
            Err(_) => false,
        };
        slot.state().uncertain = before || is_unclear;
        Ok(answer?.value)
    }

    fn form(&self, holds: bool) -> Form {
        let mut form = Form::new(self.slot().owner.clone(), self.mode, self.ttl);
        form.since = holds.then(|| self.hub.clock.wall_micros());
        form
    }

    fn hold(
        &self,
        created: i64,
        modified: i64,
        token: i64,
        form: Form,
        lease: &Arc<Lease>,
    ) -> Attempt {
        let place = Place {
            created,
            modified,
            token,
            form,
            lease: Arc::clone(lease),
        };
        self.hub.held(self.slot(), place, self.ttl);
        Attempt::Granted(Grant::new(fencing(token), self.ttl))
    }
}
