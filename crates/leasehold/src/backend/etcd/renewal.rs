//! Lengthening leases, and what else is done to one that is held.

use std::{collections::HashMap, sync::Arc};

use leasehold_core::{Instant, Mode, Name, Renewal, Renewed, Ttl};
use tokio::task::JoinSet;

use super::{
    failure,
    form::Form,
    hub::{Hub, to_the_end},
    line::{Line, fencing},
    members::Trouble,
    own::{Place, Slot, Stage, Turn},
    proto::TxnRequest,
    sessions::{Lease, fresh},
    store::{get, put, range_of, revision, single, unchanged, whole},
};
use crate::backend::Failure;

/// How many entries are compared in one transaction; servers take 128 by default.
const BATCH: usize = 100;

/// How often an entry may be rewritten by others meanwhile.
const ROUNDS: usize = 8;

/// One of a batch whose entry is expected to be as this process left it.
struct Known {
    at: usize,
    slot: Arc<Slot>,
    place: Place,
    ttl: Ttl,
}

/// Lengthens leases: a sign of life for each lease they hang on, and one transaction for every
/// [`BATCH`] of them that sees that their entries are there, unchanged.
pub(super) async fn renew(hub: &Arc<Hub>, renewals: &[Renewal]) -> Vec<Result<Renewed, Failure>> {
    let sent = hub.clock.now();
    let mut answers: Vec<_> = renewals.iter().map(|_| Err(failure::no_answer())).collect();
    // Looked up once: whatever is done to an owner meanwhile takes its slot out of use.
    let slots: Vec<_> = renewals
        .iter()
        .map(|renewal| hub.slot(&renewal.name, &renewal.owner))
        .collect();
    let (known, mut others) = sort(&slots, renewals);
    let mut tasks = JoinSet::new();
    let mut batches: Vec<Vec<Known>> = Vec::new();
    for one in known {
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH => batch.push(one),
            _ => batches.push(vec![one]),
        }
    }
    for batch in batches {
        let hub = Arc::clone(hub);
        tasks.spawn(async move {
            let answers = renew_known(&hub, &batch, sent).await;
            batch.iter().map(|one| one.at).zip(answers).collect()
        });
    }
    let mut joined: Vec<(usize, Verdict)> = Vec::new();
    while let Some(done) = tasks.join_next().await {
        joined.extend(done.unwrap_or_else(|_| Vec::new()));
    }
    for (at, verdict) in joined {
        match verdict {
            Verdict::Renewed(ttl) => answers[at] = Ok(Renewed::Renewed(ttl)),
            Verdict::Failed(failure) => answers[at] = Err(failure),
            Verdict::Unclear => others.push(at),
        }
    }
    let mut tasks = JoinSet::new();
    for at in others {
        let (hub, renewal, slot) = (Arc::clone(hub), renewals[at].clone(), slots[at].clone());
        tasks.spawn(async move {
            let Some(turn) = turn(&hub, &renewal, slot).await else {
                return (at, refused(&hub, &renewal.name).await);
            };
            let answer = rewrite(&hub, &renewal, sent, Hang::Session, |_| {}).await;
            close_empty(&hub, &turn);
            (at, answer)
        });
        if tasks.len() >= BATCH
            && let Some(Ok((at, answer))) = tasks.join_next().await
        {
            answers[at] = answer;
        }
    }
    while let Some(done) = tasks.join_next().await {
        if let Ok((at, answer)) = done {
            answers[at] = answer;
        }
    }
    answers
}

/// As a renewal of one, and binds the entry to a lease that nobody keeps alive.
pub(super) async fn detach(hub: &Arc<Hub>, renewal: &Renewal) -> Result<Renewed, Failure> {
    change(hub, renewal, Hang::Alone, |_| {}).await
}

/// As a renewal of one, and lets readers in.
pub(super) async fn downgrade(hub: &Arc<Hub>, renewal: &Renewal) -> Result<Renewed, Failure> {
    let reads = |form: &mut Form| {
        if form.mode == Mode::Exclusive {
            form.mode = Mode::Read;
        }
    };
    change(hub, renewal, Hang::Session, reads).await
}

/// As a renewal of one, and publishes `note`.
pub(super) async fn annotate(
    hub: &Arc<Hub>,
    renewal: &Renewal,
    note: Option<&str>,
) -> Result<Renewed, Failure> {
    let note = note.map(String::from);
    change(hub, renewal, Hang::Session, move |form| {
        form.note = note.clone()
    })
    .await
}

/// What an entry is bound to afterwards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hang {
    /// To the lease that this process keeps alive.
    Session,
    /// To one of its own.
    Alone,
}

enum Verdict {
    Renewed(Ttl),
    Failed(Failure),
    /// The entry is not as it was left.
    Unclear,
}

/// Those whose entries hang on a lease that is long enough, and the places of all others.
fn sort(slots: &[Option<Arc<Slot>>], renewals: &[Renewal]) -> (Vec<Known>, Vec<usize>) {
    let (mut known, mut others) = (Vec::new(), Vec::new());
    for (at, renewal) in renewals.iter().enumerate() {
        let one = slots[at].as_ref().and_then(|slot| {
            let place = known_place(slot, renewal)?;
            let ttl = renewal.ttl;
            (place.lease.serves(ttl) && place.form.ttl >= ttl).then_some(())?;
            Some(Known {
                at,
                slot: Arc::clone(slot),
                place,
                ttl,
            })
        });
        match one {
            Some(one) => known.push(one),
            None => others.push(at),
        }
    }
    (known, others)
}

fn known_place(slot: &Slot, renewal: &Renewal) -> Option<Place> {
    let state = slot.state();
    let holds = matches!(state.stage, Stage::Held(_));
    let place = state.place.as_ref().filter(|_| holds)?;
    (fencing(place.token) == renewal.token).then(|| place.clone())
}

async fn renew_known(hub: &Arc<Hub>, batch: &[Known], sent: Instant) -> Vec<Verdict> {
    let mut leases: HashMap<i64, (Arc<Lease>, Ttl)> = HashMap::new();
    for one in batch {
        let lease = &one.place.lease;
        let needed = leases
            .entry(lease.id)
            .or_insert_with(|| (Arc::clone(lease), one.ttl));
        needed.1 = needed.1.max(one.ttl);
    }
    let keep = async {
        let mut kept = HashMap::new();
        for (id, (lease, ttl)) in leases {
            kept.insert(id, hub.keep(&lease, sent, ttl).await);
        }
        kept
    };
    let txn = TxnRequest {
        compare: batch
            .iter()
            .map(|one| unchanged(&one.slot.key, one.place.modified))
            .collect(),
        success: Vec::new(),
        failure: batch.iter().map(|one| get(single(&one.slot.key))).collect(),
    };
    let (kept, seen) = tokio::join!(keep, hub.store.txn(&txn));
    let seen = seen.map_err(Failure::from);
    let verdict = |(at, one): (usize, &Known)| {
        let seen = match &seen {
            Ok(seen) => &seen.value,
            Err(failure) => return Verdict::Failed(failure.clone()),
        };
        let is_there = seen.succeeded
            || range_of(&seen.responses, at).is_ok_and(|range| {
                let kv = range.kvs.first();
                kv.is_some_and(|kv| kv.modified == one.place.modified)
            });
        match kept.get(&one.place.lease.id) {
            _ if !is_there => Verdict::Unclear,
            Some(Ok(true)) if prolong(hub, &one.slot, one.ttl) => Verdict::Renewed(one.ttl),
            Some(Ok(true)) => Verdict::Unclear,
            Some(Err(failure)) => Verdict::Failed(failure.clone()),
            Some(Ok(false)) | None => Verdict::Unclear,
        }
    };
    batch.iter().enumerate().map(verdict).collect()
}

/// Moves on when this process would end the entry itself; `false` when it is about to.
fn prolong(hub: &Hub, slot: &Slot, ttl: Ttl) -> bool {
    let until = hub.clock.now().after(ttl.get());
    let mut state = slot.state();
    if !state.is_ending {
        state.until = state.until.max(Some(until));
    }
    !state.is_ending
}

/// The owner's turn, if its `slot` is still in use. An entry that was handed over or given up while
/// its renewal was under way belongs to whoever has it now: it is not to be touched.
async fn turn(hub: &Hub, renewal: &Renewal, slot: Option<Arc<Slot>>) -> Option<Turn> {
    let turn = match slot {
        Some(slot) => hub.own.turn_of(slot).await?,
        None => hub.turn(&renewal.name, &renewal.owner).await,
    };
    let is_ending = turn.slot.state().is_ending;
    (!is_ending).then_some(turn)
}

/// The answer to one whose entry is not to be touched.
async fn refused(hub: &Hub, name: &Name) -> Result<Renewed, Failure> {
    let line = hub.store.line(name).await?;
    Ok(if line.entries.is_empty() {
        Renewed::Missing
    } else {
        Renewed::NotOurs
    })
}

fn close_empty(hub: &Hub, turn: &Turn) {
    let state = turn.slot.state();
    let is_empty = state.stage == Stage::Asking && !state.uncertain;
    drop(state);
    if is_empty {
        hub.close(&turn.slot);
    }
}

/// [`rewrite`] in the owner's turn and to its end.
async fn change(
    hub: &Arc<Hub>,
    renewal: &Renewal,
    hang: Hang,
    edit: impl Fn(&mut Form) + Send + Sync + 'static,
) -> Result<Renewed, Failure> {
    let sent = hub.clock.now();
    let slot = hub.slot(&renewal.name, &renewal.owner);
    let Some(turn) = turn(hub, renewal, slot).await else {
        return refused(hub, &renewal.name).await;
    };
    let (hub, renewal) = (Arc::clone(hub), renewal.clone());
    to_the_end(async move {
        let answer = rewrite(&hub, &renewal, sent, hang, edit).await;
        if matches!(answer, Ok(Renewed::Renewed(_))) && hang == Hang::Alone {
            hub.close(&turn.slot);
        }
        close_empty(&hub, &turn);
        answer
    })
    .await
}

/// Reads the entry, and writes it anew with `edit` if it is the one to renew.
async fn rewrite(
    hub: &Arc<Hub>,
    renewal: &Renewal,
    sent: Instant,
    hang: Hang,
    edit: impl Fn(&mut Form),
) -> Result<Renewed, Failure> {
    let (store, name) = (&hub.store, &renewal.name);
    let key = store.prefix.entry(name, &renewal.owner);
    let mut line = store.line(name).await?;
    for _ in 0..ROUNDS {
        let Some((at, form)) = find(&line, &key, renewal) else {
            gone(hub, renewal);
            return Ok(if line.entries.is_empty() {
                Renewed::Missing
            } else {
                Renewed::NotOurs
            });
        };
        let entry = &line.entries[at];
        let mut form = form.clone();
        form.ttl = match hang {
            Hang::Session => form.ttl.max(renewal.ttl),
            Hang::Alone => renewal.ttl,
        };
        edit(&mut form);
        let lease = match hang {
            Hang::Session => hub.lease(form.ttl).await?,
            Hang::Alone => Arc::new(fresh(store, &hub.clock, renewal.ttl.get()).await?),
        };
        if !hub.keep(&lease, sent, form.ttl).await? {
            continue;
        }
        let txn = TxnRequest {
            compare: vec![unchanged(&key, entry.modified)],
            success: vec![put(&key, form.write(), lease.id)],
            failure: vec![get(whole(store.prefix.queue(name.as_str())))],
        };
        let answer = match store.txn(&txn).await {
            Ok(answer) => answer.value,
            Err(Trouble::LeaseGone) => {
                lease.end();
                continue;
            }
            Err(trouble) => return Err(trouble.into()),
        };
        let now = revision(answer.header.as_ref())?;
        if !answer.succeeded {
            line = store.read_line(name, now, range_of(&answer.responses, 0)?.kvs.clone());
            continue;
        }
        let place = Place {
            created: entry.created,
            modified: now,
            token: line.phase(at).token,
            form,
            lease,
        };
        if hang == Hang::Session {
            remember(hub, name, renewal, place);
        }
        return Ok(Renewed::Renewed(renewal.ttl));
    }
    Err(Failure::no_answer(
        "the entry changes faster than it is read",
    ))
}

/// The entry to renew: it holds, under that fencing token, and was not released.
fn find<'a>(line: &'a Line, key: &[u8], renewal: &Renewal) -> Option<(usize, &'a Form)> {
    let at = line.place(key).filter(|&at| at < line.run())?;
    let form = line.entries[at].form()?;
    let is_it =
        form.owner == renewal.owner && !form.kept && fencing(line.phase(at).token) == renewal.token;
    is_it.then_some((at, form))
}

/// The entry is this process's to renew and to end from here on.
fn remember(hub: &Hub, name: &Name, renewal: &Renewal, place: Place) {
    let slot = hub.own.slot(
        name,
        &renewal.owner,
        hub.store.prefix.entry(name, &renewal.owner),
    );
    let ttl = renewal.ttl;
    hub.held(&slot, place, ttl);
}

/// The lease is over: there is nothing to end any more.
fn gone(hub: &Hub, renewal: &Renewal) {
    if let Some(slot) = hub.slot(&renewal.name, &renewal.owner)
        && known_place(&slot, renewal).is_some()
        && !slot.state().uncertain
    {
        hub.close(&slot);
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{ClientId, FencingToken, Label, Name, Owner};
    use tokio::sync::mpsc;

    use super::*;
    use crate::backend::etcd::{config::Config, keys::Prefix, members::Members, store::Store};

    /// A handle that never connects, a slot in it, and the renewal of its owner.
    fn held() -> (Hub, Arc<Slot>, Renewal) {
        let config = Config::from_url("etcd://127.0.0.1:1").unwrap();
        let members = Members::new(&config, 0).unwrap();
        let prefix = Prefix::default();
        let hub = Hub::new(Store { members, prefix }, mpsc::unbounded_channel().0);
        let owner = Owner::new(1, &ClientId::new(1), "h", 1, &Label::default());
        let name = Name::new("n").unwrap();
        let key = hub.store.prefix.entry(&name, &owner);
        let slot = hub.own.slot(&name, &owner, key);
        let token = FencingToken::new(7).unwrap();
        let renewal = Renewal::new(name, owner, Mode::Exclusive, token, Ttl::DEFAULT);
        (hub, slot, renewal)
    }

    #[tokio::test]
    async fn a_late_renewal_leaves_alone_what_was_handed_over_meanwhile() {
        let (hub, slot, renewal) = held();
        let before = Arc::clone(&slot);
        assert!(
            turn(&hub, &renewal, Some(Arc::clone(&slot)))
                .await
                .is_some()
        );
        hub.close(&slot);
        assert!(turn(&hub, &renewal, Some(before)).await.is_none());
        // Whoever takes it over anew has a turn.
        assert!(turn(&hub, &renewal, None).await.is_some());
    }

    #[tokio::test]
    async fn what_is_being_removed_is_not_renewed() {
        let (hub, slot, renewal) = held();
        assert!(prolong(&hub, &slot, Ttl::DEFAULT));
        let until = slot.state().until;
        slot.state().is_ending = true;
        assert!(!prolong(&hub, &slot, Ttl::MAX));
        assert_eq!(slot.state().until, until);
        assert!(turn(&hub, &renewal, Some(slot)).await.is_none());
    }
}
