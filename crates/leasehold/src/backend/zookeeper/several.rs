//! Several locks in one step: their nodes are created in one transaction, or none is.

use std::sync::Arc;

use leasehold_core::{FencingToken, Grant, Instant, Request};
use zookeeper_client::{CreateMode, Error, MultiWriteError, MultiWriteResult};

use super::{
    acquire, attend,
    claims::{Claim, Key, Node, Place},
    failure::{after_a_write, from_error, protocol},
    keys::stem,
    look::{Look, from_outside, look},
    read, release,
    session::Session,
    shared::Shared,
    wire::Data,
};
use crate::backend::{Failure, Sent};

/// How often the node of a name may vanish before it is used.
const TRIES: u32 = 5;

/// A claim on one of the names.
struct Part {
    key: Key,
    id: u64,
    /// What its node's path begins with.
    stem: String,
    data: String,
}

pub(super) async fn run(
    shared: &Arc<Shared>,
    requests: &[Request],
) -> Result<Option<Vec<Grant>>, Failure> {
    requests.iter().try_for_each(acquire::check)?;
    let began = shared.clock().now();
    let session = shared.sessions.current().await?;
    if !are_free(shared, &session, requests).await? {
        return Ok(None);
    }
    let parts: Vec<Part> = requests
        .iter()
        .map(|request| begin(shared, &session, request, began))
        .collect();
    let nodes = match create(shared, &session, &parts).await {
        Ok(nodes) => nodes,
        Err(failure) => {
            if failure.sent() == Sent::No {
                forget(shared, &parts);
            }
            return Err(failure);
        }
    };
    let tokens = match holds(shared, &session, &parts, &nodes).await {
        Ok(Some(tokens)) => tokens,
        Ok(None) => {
            let removals: Vec<_> = parts.iter().map(|part| undo(shared, part)).collect();
            for removal in removals {
                removal.await.map_err(|failure| after_a_write(&failure))?;
            }
            return Ok(None);
        }
        Err(failure) => return Err(after_a_write(&failure)),
    };
    let grant = |((part, node), (token, request)): ((&Part, &Node), (FencingToken, &Request))| {
        let Part { key, id, .. } = part;
        attend::hold(shared, (key, *id), node, token, began);
        attend::see_to_it(shared, &session, key, *id, None);
        Grant::new(token, session.effective(request.ttl))
    };
    let parts = parts.iter().zip(&nodes);
    Ok(Some(
        parts
            .zip(tokens.into_iter().zip(requests))
            .map(grant)
            .collect(),
    ))
}

/// Whether all seem to be had: where one is not, nothing is written.
async fn are_free(
    shared: &Shared,
    session: &Session,
    requests: &[Request],
) -> Result<bool, Failure> {
    let sync = session.client.sync(shared.tree.root());
    let paths: Vec<String> = requests
        .iter()
        .map(|request| shared.tree.node(request.name.as_str()))
        .collect();
    let lists = read::children(&session.client, &paths).await?;
    sync.await.map_err(from_error)?;
    for (request, children) in requests.iter().zip(lists) {
        let Request { name, mode, .. } = request;
        if from_outside(shared, session, name, *mode, children)
            .await?
            .is_some()
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn begin(shared: &Shared, session: &Session, request: &Request, began: Instant) -> Part {
    let key = Key::new(&request.name, &request.owner);
    let data = Data {
        owner: request.owner.clone(),
        mode: request.mode,
        ttl: session.effective(request.ttl),
        phase: None,
        note: None,
    };
    let parent = shared.tree.node(request.name.as_str());
    let stem = stem(&request.owner, request.mode, shared.layout());
    let written = data.write();
    let end = began.after(request.ttl.get());
    let claim = Claim::new(session.id, data, request.ttl, end, 0);
    Part {
        id: shared.claims.begin(&key, claim),
        key,
        stem: format!("{parent}/{stem}"),
        data: written,
    }
}

fn forget(shared: &Shared, parts: &[Part]) {
    for part in parts {
        shared.claims.remove(&part.key, part.id);
    }
}

fn undo(
    shared: &Arc<Shared>,
    part: &Part,
) -> impl Future<Output = Result<leasehold_core::Released, Failure>> + Send + use<> {
    let claim = shared.claims.remove(&part.key, part.id);
    release::discard(shared, &part.key, claim)
}

/// Creates all nodes in one transaction.
async fn create(shared: &Shared, session: &Session, parts: &[Part]) -> Result<Vec<Node>, Failure> {
    let options = CreateMode::EphemeralSequential.with_acls(session.acls());
    for _ in 0..TRIES {
        let mut writer = session.client.new_multi_writer();
        for part in parts {
            let added = writer.add_create(&part.stem, part.data.as_bytes(), &options);
            added.map_err(from_error)?;
        }
        match writer.commit().await {
            Ok(results) => {
                let created = created(shared, session, parts, results).await;
                return created.map_err(|failure| after_a_write(&failure));
            }
            Err(MultiWriteError::OperationFailed {
                source: Error::NoNode,
                ..
            }) => {
                for part in parts {
                    let parent = shared.tree.node(part.key.name.as_str());
                    acquire::make_parent(session, &parent).await?;
                }
            }
            Err(error) => return Err(from_error(error.into())),
        }
    }
    Err(Failure::unavailable(
        "the node of a name is removed again and again",
    ))
}

/// The nodes by what was answered. Servers leave out when they were created, so that is read.
async fn created(
    shared: &Shared,
    session: &Session,
    parts: &[Part],
    results: Vec<MultiWriteResult>,
) -> Result<Vec<Node>, Failure> {
    let path = |result| match result {
        MultiWriteResult::Create { path, .. } => Ok(path),
        _ => Err(protocol("ZooKeeper answered something else than a node")),
    };
    let paths: Vec<String> = results.into_iter().map(path).collect::<Result<_, _>>()?;
    let seen = read::nodes(&session.client, &paths).await?;
    let mut nodes = Vec::with_capacity(paths.len());
    for ((path, seen), part) in paths.into_iter().zip(seen).zip(parts) {
        let Some(seen) = seen else {
            return Err(Failure::no_answer("a node was removed at once, by another"));
        };
        let node = Node {
            path,
            created: read::created(&seen.stat)?,
        };
        let place = Place::Waiting(node.clone());
        shared
            .claims
            .change(&part.key, part.id, |claim| claim.place = place);
        nodes.push(node);
    }
    if nodes.len() != parts.len() {
        return Err(protocol("ZooKeeper answered for another number of nodes"));
    }
    Ok(nodes)
}

/// The fencing token of each, if all hold.
async fn holds(
    shared: &Shared,
    session: &Session,
    parts: &[Part],
    nodes: &[Node],
) -> Result<Option<Vec<FencingToken>>, Failure> {
    let parent = |part: &Part| shared.tree.node(part.key.name.as_str());
    let paths: Vec<String> = parts.iter().map(parent).collect();
    let lists = read::children(&session.client, &paths).await?;
    let mut tokens = Vec::with_capacity(parts.len());
    for ((part, node), children) in parts.iter().zip(nodes).zip(lists) {
        match look(shared, session, (&part.key, part.id), node, children).await? {
            Look::Holds(token) => tokens.push(token),
            Look::Waits(_) | Look::Gone => return Ok(None),
        }
    }
    Ok(Some(tokens))
}
