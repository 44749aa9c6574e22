//! Giving up a lock or a place in the queue, and ending another's.

use std::{sync::Arc, time::Duration};

use leasehold_core::{Name, Owner, Released, Ttl};

use super::{
    hub::{Hub, to_the_end},
    line::{Entry, Line},
    members::Trouble,
    own::{Asked, Place, Slot, Stage, Turn},
    proto::{Compare, RequestOp, TxnRequest},
    sessions::fresh,
    store::{created_at, delete, get, put, range_of, revision, unchanged, whole},
};
use crate::backend::Failure;

/// For how long a request that was not answered is kept from being executed after its withdrawal,
/// where its lease lives on. Servers give up requests after some seconds.
const TOMBSTONE: Duration = Duration::from_secs(60);

/// How often an entry may be rewritten while it is about to be removed.
const ROUNDS: usize = 8;

/// Gives up whatever `owner` has of `name`.
pub(super) async fn release(
    hub: &Arc<Hub>,
    name: &Name,
    owner: &Owner,
    min_hold: Option<Duration>,
) -> Result<Released, Failure> {
    let turn = hub.turn(name, owner).await;
    let hub = Arc::clone(hub);
    to_the_end(async move {
        let answer = give_up(&hub, &turn, min_hold).await;
        let state = turn.slot.state().clone();
        // Unanswered: it is repeated, and the slot has what is needed for that.
        let is_needed = answer.is_err() && (state.place.is_some() || state.uncertain);
        if state.stage != Stage::Kept && !is_needed {
            hub.close(&turn.slot);
        }
        answer
    })
    .await
}

async fn give_up(
    hub: &Arc<Hub>,
    turn: &Turn,
    min_hold: Option<Duration>,
) -> Result<Released, Failure> {
    let slot = &turn.slot;
    let state = slot.state().clone();
    if state.stage == Stage::Kept {
        return kept_already(hub, slot).await;
    }
    let held = match (state.stage, state.place) {
        (Stage::Held(since), Some(place)) => Some((since, place)),
        _ => None,
    };
    if let Some((since, place)) = &held
        && let Some(left) = min_hold.and_then(|hold| left(hold, hub.clock.now() - *since))
    {
        return keep(hub, slot, place, left).await;
    }
    match held {
        _ if state.uncertain => bury(hub, slot, state.asked).await,
        Some((_, place)) => remove_held(hub, slot, &place).await,
        None => remove_unknown(hub, slot, min_hold).await,
    }
}

/// What is left of a minimum hold.
fn left(hold: Duration, elapsed: Duration) -> Option<Duration> {
    let hold = hold.min(Ttl::MAX.get());
    hold.checked_sub(elapsed).filter(|left| !left.is_zero())
}

/// Removes the entry of one that is known to hold.
async fn remove_held(hub: &Hub, slot: &Slot, place: &Place) -> Result<Released, Failure> {
    let txn = TxnRequest {
        compare: vec![created_at(&slot.key, place.created)],
        success: vec![delete(&slot.key)],
        failure: Vec::new(),
    };
    let answer = hub.store.txn(&txn).await?;
    // The first try of a repeated one may have removed it.
    Ok(if answer.value.succeeded || answer.repeated {
        Released::Released
    } else {
        Released::NotOurs
    })
}

/// Leaves the name taken for `left` more, on a lease of its own.
async fn keep(
    hub: &Hub,
    slot: &Arc<Slot>,
    place: &Place,
    left: Duration,
) -> Result<Released, Failure> {
    let until = hub.clock.now().after(left);
    let mut place = place.clone();
    place.form.kept = true;
    place.form.note = None;
    place.form.ttl = Ttl::clamped(left);
    place.lease = Arc::new(fresh(&hub.store, &hub.clock, left).await?);
    let txn = TxnRequest {
        compare: vec![created_at(&slot.key, place.created)],
        success: vec![put(&slot.key, place.form.write(), place.lease.id)],
        failure: Vec::new(),
    };
    let answer = hub.store.txn(&txn).await?;
    if !answer.value.succeeded {
        return Ok(Released::NotOurs);
    }
    place.modified = revision(answer.value.header.as_ref())?;
    let mut state = slot.state();
    state.stage = Stage::Kept;
    state.until = Some(until);
    state.place = Some(place);
    let watch = state.own_watch.take();
    drop(state);
    if let Some(id) = watch {
        hub.unwatch(id);
    }
    hub.own.look_at(slot, until);
    Ok(Released::Kept)
}

/// A repeated release of one whose minimum hold runs.
async fn kept_already(hub: &Hub, slot: &Slot) -> Result<Released, Failure> {
    let line = hub.store.line(&slot.name).await?;
    if line.place(&slot.key).is_none() {
        // Over, or freed by force.
        slot.state().stage = Stage::Asking;
    }
    Ok(Released::NotOurs)
}

/// Removes what may be there and sees to it that a request under way no longer creates it.
///
/// What forbids it hangs on the lease that the request names: without that lease it would fail.
async fn bury(hub: &Arc<Hub>, slot: &Slot, mut asked: Option<Asked>) -> Result<Released, Failure> {
    let mut line = hub.store.line(&slot.name).await?;
    for _ in 0..ROUNDS {
        let entry = line.place(&slot.key).map(|at| &line.entries[at]);
        if entry.and_then(Entry::form).is_some_and(|form| form.kept) {
            return Ok(Released::NotOurs);
        }
        let modified = entry.map_or(0, |entry| entry.modified);
        let compare = vec![unchanged(&slot.key, modified)];
        let mut then = Vec::new();
        if let Some(asked) = &asked {
            then.push(put(&asked.tombstone, Vec::new(), asked.lease.id));
        }
        if entry.is_some() {
            then.push(delete(&slot.key));
        }
        match remove(hub, slot, compare, then).await {
            Ok(Ok(())) => {
                if let Some(asked) = asked {
                    hub.remove_later(asked.tombstone, TOMBSTONE);
                }
                return Ok(was(&line, slot));
            }
            Ok(Err(changed)) => line = changed,
            Err(Trouble::LeaseGone) => asked = None,
            Err(trouble) => return Err(trouble.into()),
        }
    }
    Err(Failure::no_answer(
        "the entry changes faster than it is read",
    ))
}

/// Removes the entry of an owner of which little is known here.
async fn remove_unknown(
    hub: &Hub,
    slot: &Arc<Slot>,
    min_hold: Option<Duration>,
) -> Result<Released, Failure> {
    let mut line = hub.store.line(&slot.name).await?;
    for _ in 0..ROUNDS {
        let Some(at) = line.place(&slot.key) else {
            return Ok(Released::NotOurs);
        };
        let entry = &line.entries[at];
        let form = entry.form().filter(|form| form.owner == slot.owner);
        let Some(form) = form.filter(|form| !form.kept) else {
            return Ok(Released::NotOurs);
        };
        let holds = at < line.run();
        if let Some(hold) = min_hold.filter(|_| holds) {
            let now = hub.clock.wall_micros();
            let since = form.since.unwrap_or(now);
            let elapsed = Duration::from_micros(now.saturating_sub(since));
            if let Some(left) = left(hold, elapsed) {
                let place = Place {
                    created: entry.created,
                    modified: entry.modified,
                    token: line.phase(at).token,
                    form: form.clone(),
                    lease: hub.lease(form.ttl).await?,
                };
                return keep(hub, slot, &place, left).await;
            }
        }
        let compare = vec![unchanged(&slot.key, entry.modified)];
        match remove(hub, slot, compare, vec![delete(&slot.key)]).await {
            Ok(Ok(())) => return Ok(was(&line, slot)),
            Ok(Err(changed)) => line = changed,
            Err(trouble) => return Err(trouble.into()),
        }
    }
    Err(Failure::no_answer(
        "the entry changes faster than it is read",
    ))
}

/// What the owner had in a line in which it no longer is.
fn was(line: &Line, slot: &Slot) -> Released {
    match line.place(&slot.key) {
        Some(at) if at < line.run() => Released::Released,
        _ => Released::NotOurs,
    }
}

/// Does `then` under a condition; the line as it is now, if that does not hold.
async fn remove(
    hub: &Hub,
    slot: &Slot,
    compare: Vec<Compare>,
    then: Vec<RequestOp>,
) -> Result<Result<(), Line>, Trouble> {
    let txn = TxnRequest {
        compare,
        success: then,
        failure: vec![get(whole(hub.store.prefix.queue(slot.name.as_str())))],
    };
    let answer = hub.store.txn(&txn).await?.value;
    if answer.succeeded {
        return Ok(Ok(()));
    }
    let now = revision(answer.header.as_ref())?;
    let kvs = range_of(&answer.responses, 0)?.kvs.clone();
    Ok(Err(hub.store.read_line(&slot.name, now, kvs)))
}

/// Ends the lease of a holder that is called `observed`.
pub(super) async fn force(hub: &Hub, name: &Name, observed: &str) -> Result<bool, Failure> {
    let mut line = hub.store.line(name).await?;
    for _ in 0..ROUNDS {
        let holders = &line.entries[..line.run()];
        let Some(victim) = holders.iter().find(|entry| entry.is_called(observed)) else {
            return Ok(false);
        };
        let txn = TxnRequest {
            compare: vec![unchanged(&victim.key, victim.modified)],
            success: vec![delete(&victim.key)],
            failure: vec![get(whole(hub.store.prefix.queue(name.as_str())))],
        };
        let answer = hub.store.txn(&txn).await?;
        if answer.value.succeeded {
            return Ok(true);
        }
        let now = revision(answer.value.header.as_ref())?;
        let kvs = range_of(&answer.value.responses, 0)?.kvs.clone();
        let changed = hub.store.read_line(name, now, kvs);
        let is_there = changed.entries.iter().any(|it| it.is_called(observed));
        if answer.repeated && !is_there {
            return Ok(true);
        }
        line = changed;
    }
    Err(Failure::unavailable(
        "the entry changes faster than it is read",
    ))
}
