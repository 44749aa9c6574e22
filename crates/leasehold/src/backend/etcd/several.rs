//! Several locks in one step.

use std::sync::Arc;

use leasehold_core::{Grant, Mode, Request, Ttl};

use super::{
    attempt::first_ttl,
    failure,
    form::Form,
    hub::{Hub, to_the_end},
    line::{Chance, Line, fencing},
    members::Trouble,
    own::{Asked, Place, Turn},
    proto::{TxnRequest, TxnResponse},
    sessions::Lease,
    store::{created_at, get, nothing_after, put, range_of, revision, unchanged, whole},
};
use crate::backend::{Failure, Sent};

/// What servers take in one transaction by default: comparisons, and operations of each branch.
const LIMIT: usize = 128;

/// How often the queues may change between reading and writing.
const ROUNDS: usize = 16;

/// All of them in one transaction.
struct All {
    hub: Arc<Hub>,
    requests: Vec<Request>,
    turns: Vec<Turn>,
    ttl: Ttl,
    sent: leasehold_core::Instant,
}

/// Takes all of these locks or none.
///
/// One transaction creates all entries, on condition that every queue is empty. Otherwise the
/// queues are read, and a second one creates them on condition that nobody came since; so none is
/// ever held, or seen by others, unless all are.
pub(super) async fn acquire_all(
    hub: &Arc<Hub>,
    requests: &[Request],
) -> Result<Option<Vec<Grant>>, Failure> {
    let Some(ttl) = requests.iter().map(first_ttl).max() else {
        return Ok(Some(Vec::new()));
    };
    let sent = hub.clock.now();
    let mut turns = Vec::new();
    for request in requests {
        turns.push(hub.turn(&request.name, &request.owner).await);
    }
    let all = All {
        hub: Arc::clone(hub),
        requests: requests.to_vec(),
        turns,
        ttl,
        sent,
    };
    to_the_end(all.run()).await
}

impl All {
    async fn run(self) -> Result<Option<Vec<Grant>>, Failure> {
        let answer = self.pursue().await;
        if matches!(answer, Ok(None)) || answer.as_ref().is_err_and(|it| it.sent() == Sent::No) {
            for turn in &self.turns {
                if !turn.slot.state().uncertain {
                    self.hub.close(&turn.slot);
                }
            }
        }
        answer
    }

    async fn pursue(&self) -> Result<Option<Vec<Grant>>, Failure> {
        let mut lease = self.hub.lease(self.ttl).await?;
        let mut lines: Option<Vec<Line>> = None;
        for _ in 0..ROUNDS {
            let Some((txn, forms)) = self.plan(lines.as_deref(), &lease) else {
                return Ok(None);
            };
            if txn.compare.len() > LIMIT {
                return Err(Failure::unsupported(
                    "etcd takes no more than 127 locks in one step; redis does",
                ));
            }
            let (kept, answer) = tokio::join!(
                self.hub.keep(&lease, self.sent, self.ttl),
                self.send(&txn, &lease)
            );
            let answer = match answer {
                Err(Trouble::LeaseGone) => {
                    lease.end();
                    lease = self.hub.lease(self.ttl).await?;
                    continue;
                }
                answer => answer?,
            };
            let now = revision(answer.header.as_ref())?;
            if answer.succeeded {
                let grants = self.hold(now, forms, &lease);
                // Without a lease they are gone already, or will be in a moment.
                return match kept {
                    Ok(true) => Ok(Some(grants)),
                    Ok(false) => Err(Failure::no_answer("the session's lease is over")),
                    Err(failure) => Err(failure.maybe_sent()),
                };
            }
            let mut read = Vec::new();
            for (at, request) in self.requests.iter().enumerate() {
                let kvs = range_of(&answer.responses, at)?.kvs.clone();
                read.push(self.hub.store.read_line(&request.name, now, kvs));
            }
            lines = Some(read);
        }
        Err(Failure::unavailable(
            "the queues change faster than they are read",
        ))
    }

    /// The transaction that takes all on condition that the queues are as they were read, or empty;
    /// `None` when one is not to be had.
    fn plan(&self, lines: Option<&[Line]>, lease: &Lease) -> Option<(TxnRequest, Vec<Form>)> {
        let prefix = &self.hub.store.prefix;
        let mut txn = TxnRequest::default();
        txn.compare.push(created_at(&self.tombstone(), 0));
        let mut forms = Vec::new();
        for (at, request) in self.requests.iter().enumerate() {
            let slot = &self.turns[at].slot;
            let span = prefix.queue(request.name.as_str());
            let mut form = Form::new(request.owner.clone(), request.mode, self.ttl);
            form.since = Some(self.hub.clock.wall_micros());
            let line = lines.map(|lines| &lines[at]);
            if let Some(line) = line {
                self.join(line, slot.key.as_slice(), request.mode, &mut form, &mut txn)?;
            }
            let revision = line.map_or(0, |line| line.revision);
            txn.compare.push(nothing_after(&span, revision));
            txn.success.push(put(&slot.key, form.write(), lease.id));
            txn.failure.push(get(whole(span)));
            forms.push(form);
        }
        Some((txn, forms))
    }

    /// Adds what it takes to hold together with those in the line.
    fn join(
        &self,
        line: &Line,
        key: &[u8],
        mode: Mode,
        form: &mut Form,
        txn: &mut TxnRequest,
    ) -> Option<()> {
        let is_new = line.place(key).is_none();
        (is_new && line.chance(mode) == Chance::Free).then_some(())?;
        let phase = line.phase(line.entries.len());
        if let Some(source) = phase.source.map(|at| &line.entries[at]) {
            form.phase = Some(fencing(phase.token));
            txn.compare.push(unchanged(&source.key, source.modified));
        }
        Some(())
    }

    async fn send(&self, txn: &TxnRequest, lease: &Arc<Lease>) -> Result<TxnResponse, Trouble> {
        let mark = |uncertain: bool| {
            for turn in &self.turns {
                let mut state = turn.slot.state();
                state.uncertain = uncertain;
                state.asked = Some(Asked {
                    lease: Arc::clone(lease),
                    tombstone: self.tombstone(),
                });
            }
        };
        mark(true);
        let answer = self.hub.store.txn(txn).await;
        mark(match &answer {
            Ok(answer) => answer.repeated,
            Err(Trouble::Failed(failure)) => failure.sent() == Sent::Maybe,
            Err(_) => false,
        });
        let answer = answer?;
        if answer.repeated && !answer.value.succeeded {
            // The first try may have taken them all: what is there now is what it did, or not.
            return Err(failure::no_answer().into());
        }
        Ok(answer.value)
    }

    /// That of the first forbids the request for all.
    fn tombstone(&self) -> Vec<u8> {
        let first = self.requests.first().map(|request| &request.owner);
        first.map_or_else(Vec::new, |owner| self.hub.store.prefix.tombstone(owner))
    }

    fn hold(&self, created: i64, forms: Vec<Form>, lease: &Arc<Lease>) -> Vec<Grant> {
        let hold = |(turn, form): (&Turn, Form)| {
            let token = form.phase.unwrap_or_else(|| fencing(created));
            let place = Place {
                created,
                modified: created,
                token: i64::try_from(token.get()).unwrap_or(created),
                form,
                lease: Arc::clone(lease),
            };
            self.hub.held(&turn.slot, place, self.ttl);
            Grant::new(token, self.ttl)
        };
        self.turns.iter().zip(forms).map(hold).collect()
    }
}
