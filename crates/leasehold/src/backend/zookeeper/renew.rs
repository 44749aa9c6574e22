//! Lengthening leases, and what else a holder may do with one.

use leasehold_core::{FencingToken, Mode, Renewal, Renewed, Ttl};
use zookeeper_client::{Error, Stat};

use super::{
    claims::{Claim, Key, Node, Place},
    failure::from_error,
    line::Line,
    read::{self, Seen},
    session::Session,
    shared::Shared,
};
use crate::backend::Failure;

/// A renewal with what is known here of its lease.
struct Lease {
    key: Key,
    /// None when this client has no such lease.
    node: Option<(u64, Node)>,
}

/// Asks for the nodes of all leases in a few requests. That a node is there, on this session, is
/// the renewal: the answer shows that the session lived when the request was sent.
pub(super) async fn run(shared: &Shared, renewals: &[Renewal]) -> Vec<Result<Renewed, Failure>> {
    match try_run(shared, renewals).await {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(failure) => renewals.iter().map(|_| Err(failure.clone())).collect(),
    }
}

async fn try_run(shared: &Shared, renewals: &[Renewal]) -> Result<Vec<Renewed>, Failure> {
    let began = shared.clock().now();
    let session = shared.sessions.current().await?;
    let now = shared.clock().now();
    let leases: Vec<Lease> = renewals
        .iter()
        .map(|renewal| lease(shared, &session, renewal, now))
        .collect();
    let nodes = leases.iter().filter_map(|lease| lease.node.as_ref());
    let paths: Vec<String> = nodes.map(|(_, node)| node.path.clone()).collect();
    let mut seen = read::nodes(&session.client, &paths).await?.into_iter();
    let mut answers: Vec<Option<Renewed>> = Vec::with_capacity(renewals.len());
    for (lease, renewal) in leases.iter().zip(renewals) {
        let ttl = session.effective(renewal.ttl);
        let there = lease.node.as_ref().filter(|_| {
            let seen = seen.next().flatten();
            seen.is_some_and(|seen| is_ours(&seen, &session))
        });
        answers.push(there.and_then(|(id, node)| {
            let key = &lease.key;
            let lengthened = shared.claims.change(key, *id, |claim| {
                claim.end = claim.end.max(began.after(ttl.get()));
                (ttl > claim.data.ttl)
                    .then(|| claim.data.ttl = ttl)
                    .map(|()| claim.data.write())
            });
            if let Some(Some(data)) = &lengthened {
                // Only for those who inspect: what comes of it is not waited for.
                drop(session.client.set_data(&node.path, data.as_bytes(), None));
            }
            lengthened.map(|_| Renewed::Renewed(ttl))
        }));
    }
    without(shared, &session, renewals, answers).await
}

fn lease(
    shared: &Shared,
    session: &Session,
    renewal: &Renewal,
    now: leasehold_core::Instant,
) -> Lease {
    let key = Key::new(&renewal.name, &renewal.owner);
    let node = shared
        .claims
        .get(&key, |claim| held(claim, session, renewal.token, now));
    Lease {
        key,
        node: node.flatten(),
    }
}

fn held(
    claim: &Claim,
    session: &Session,
    token: FencingToken,
    now: leasehold_core::Instant,
) -> Option<(u64, Node)> {
    let current = claim.session == session.id && claim.end > now;
    match &claim.place {
        Place::Holding(node, held) if current && *held == token => Some((claim.id, node.clone())),
        _ => None,
    }
}

fn is_ours(seen: &Seen, session: &Session) -> bool {
    let Stat {
        ephemeral_owner, ..
    } = seen.stat;
    ephemeral_owner == session.id
}

/// Fills in what became of the names whose lease is not there.
async fn without(
    shared: &Shared,
    session: &Session,
    renewals: &[Renewal],
    answers: Vec<Option<Renewed>>,
) -> Result<Vec<Renewed>, Failure> {
    let lost = renewals
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| answer.is_none());
    let parents: Vec<String> = lost
        .map(|(renewal, _)| shared.tree.node(renewal.name.as_str()))
        .collect();
    let mut lists = read::children(&session.client, &parents).await?.into_iter();
    let fill = |answer: Option<Renewed>| {
        answer.unwrap_or_else(|| {
            let line = Line::new(lists.next().unwrap_or_default());
            if line.children().is_empty() {
                Renewed::Missing
            } else {
                Renewed::NotOurs
            }
        })
    };
    Ok(answers.into_iter().map(fill).collect())
}

/// Renews one lease and changes what its node says.
async fn change(
    shared: &Shared,
    renewal: &Renewal,
    change: impl FnOnce(&mut Claim),
) -> Result<Renewed, Failure> {
    let began = shared.clock().now();
    let session = shared.sessions.current().await?;
    let now = shared.clock().now();
    let lease = lease(shared, &session, renewal, now);
    let ttl = session.effective(renewal.ttl);
    let mut answer = None;
    if let Some((id, node)) = &lease.node {
        // Sent under the claims' lock, so that two changes arrive in the order in which they were
        // made.
        let sent = shared.claims.change(&lease.key, *id, |claim| {
            change(claim);
            claim.data.ttl = claim.data.ttl.max(ttl);
            session
                .client
                .set_data(&node.path, claim.data.write().as_bytes(), None)
        });
        if let Some(sent) = sent {
            answer = match sent.await {
                Ok(stat) if stat.ephemeral_owner == session.id => {
                    lengthen(shared, &lease.key, *id, began.after(ttl.get()), ttl)
                }
                Ok(_) | Err(Error::NoNode) => None,
                Err(error) => return Err(from_error(error)),
            };
        }
    }
    let answers = without(
        shared,
        &session,
        std::slice::from_ref(renewal),
        vec![answer],
    )
    .await?;
    Ok(answers[0])
}

fn lengthen(
    shared: &Shared,
    key: &Key,
    id: u64,
    end: leasehold_core::Instant,
    ttl: Ttl,
) -> Option<Renewed> {
    shared.claims.change(key, id, |claim| {
        claim.end = claim.end.max(end);
        Renewed::Renewed(ttl)
    })
}

/// A writer goes on as a reader: its node stays where it is, and says so.
pub(super) async fn downgrade(shared: &Shared, renewal: &Renewal) -> Result<Renewed, Failure> {
    change(shared, renewal, |claim| {
        if claim.data.mode == Mode::Exclusive {
            claim.data.mode = Mode::Read;
        }
    })
    .await
}

pub(super) async fn annotate(
    shared: &Shared,
    renewal: &Renewal,
    note: Option<&str>,
) -> Result<Renewed, Failure> {
    change(shared, renewal, |claim| {
        claim.data.note = note.map(Into::into)
    })
    .await
}
