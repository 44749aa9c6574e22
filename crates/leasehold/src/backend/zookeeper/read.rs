//! Reading nodes, several in one request.

use zookeeper_client::{Client, Error, MultiReadResult, Stat};

use leasehold_core::{FencingToken, Holder, HolderKind, Mode};

use super::{
    failure::{from_error, protocol},
    keys::Child,
    wire::{Data, printable},
};
use crate::backend::Failure;

/// How many nodes one request reads: its answer stays far below what servers and clients take.
const BATCH: usize = 200;

/// A node as it was read.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) stat: Stat,
    pub(super) data: Option<Data>,
    raw: Vec<u8>,
}

impl Seen {
    pub(super) fn new(raw: Vec<u8>, stat: Stat) -> Self {
        let data = Data::read(&raw);
        Self { stat, data, raw }
    }

    /// The fencing token of those that hold together when this one is the first of them.
    pub(super) fn phase(&self) -> Result<FencingToken, Failure> {
        let phase = self.data.as_ref().and_then(|data| data.phase);
        phase.map_or_else(|| created(&self.stat), Ok)
    }

    /// Whether this is a writer that became a reader.
    pub(super) fn reads(&self) -> bool {
        self.data
            .as_ref()
            .is_some_and(|data| data.mode == Mode::Read)
    }

    /// What inspection reports when it holds.
    pub(super) fn holder(&self, child: &Child, phase: FencingToken) -> Holder {
        let Some(data) = &self.data else {
            let node = child.node.clone();
            let mut holder = Holder::foreign(HolderKind::Foreign, node, None);
            holder.mode = child.mode;
            holder.note = printable(&self.raw);
            return holder;
        };
        let mut holder = Holder::new(&data.owner, data.mode, phase, data.ttl.get());
        holder.note = data.note.clone();
        holder
    }
}

/// When a node was created, which is the fencing token of its grant.
pub(super) fn created(stat: &Stat) -> Result<FencingToken, Failure> {
    let created = u64::try_from(stat.czxid).unwrap_or_default();
    FencingToken::new(created).map_err(|_| {
        protocol(format!(
            "ZooKeeper's transaction number {created} is no fencing token"
        ))
    })
}

/// The nodes at these paths in their order; none for one that is gone.
pub(super) async fn nodes(client: &Client, paths: &[String]) -> Result<Vec<Option<Seen>>, Failure> {
    let mut answers = Vec::with_capacity(paths.len().div_ceil(BATCH));
    for paths in paths.chunks(BATCH) {
        let mut reader = client.new_multi_reader();
        for path in paths {
            reader.add_get_data(path).map_err(from_error)?;
        }
        // Sent here and now, so that all are on their way before the first is awaited.
        answers.push(reader.commit());
    }
    let mut seen = Vec::with_capacity(paths.len());
    for answer in answers {
        for result in answer.await.map_err(from_error)? {
            seen.push(match result {
                MultiReadResult::Data { data, stat } => Some(Seen::new(data, stat)),
                MultiReadResult::Error { err: Error::NoNode } => None,
                MultiReadResult::Error { err } => return Err(from_error(err)),
                _ => return Err(protocol("ZooKeeper answered something else than data")),
            });
        }
    }
    if seen.len() != paths.len() {
        return Err(protocol("ZooKeeper answered for another number of nodes"));
    }
    Ok(seen)
}

/// The children of the nodes at these paths in their order; none for a node that is not there.
pub(super) async fn children(
    client: &Client,
    paths: &[String],
) -> Result<Vec<Vec<String>>, Failure> {
    let mut answers = Vec::with_capacity(paths.len().div_ceil(BATCH));
    for paths in paths.chunks(BATCH) {
        let mut reader = client.new_multi_reader();
        for path in paths {
            reader.add_get_children(path).map_err(from_error)?;
        }
        answers.push(reader.commit());
    }
    let mut lists = Vec::with_capacity(paths.len());
    for answer in answers {
        for result in answer.await.map_err(from_error)? {
            lists.push(match result {
                MultiReadResult::Children { children } => children,
                MultiReadResult::Error { err: Error::NoNode } => Vec::new(),
                MultiReadResult::Error { err } => return Err(from_error(err)),
                _ => return Err(protocol("ZooKeeper answered something else than children")),
            });
        }
    }
    if lists.len() != paths.len() {
        return Err(protocol("ZooKeeper answered for another number of nodes"));
    }
    Ok(lists)
}

/// The children of one node; none if it is not there.
pub(super) async fn children_of(client: &Client, path: &str) -> Result<Vec<String>, Failure> {
    match client.list_children(path).await {
        Ok(children) => Ok(children),
        Err(Error::NoNode) => Ok(Vec::new()),
        Err(error) => Err(from_error(error)),
    }
}

/// As [`children_of`], not older than this call: other clients' changes that were answered before
/// it are in.
pub(super) async fn children_now(client: &Client, path: &str) -> Result<Vec<String>, Failure> {
    let sync = client.sync(path);
    let children = client.list_children(path);
    sync.await.map_err(from_error)?;
    match children.await {
        Ok(children) => Ok(children),
        Err(Error::NoNode) => Ok(Vec::new()),
        Err(error) => Err(from_error(error)),
    }
}
