//! Where a claim stands in its line.

use std::time::Duration;

use leasehold_core::{FencingToken, Holder, Mode, Name};
use zookeeper_client::{Error, MultiWriteError};

use super::{
    claims::{Key, Node, Place},
    failure::from_error,
    line::{Line, Turn},
    read::{self, Seen},
    session::Session,
    shared::Shared,
};
use crate::backend::Failure;

/// How long one that waits for a stranger, whose end nobody knows, need not ask again.
const STRANGER: Duration = Duration::from_secs(1);

/// How many of those that hold are read, to tell who they are and when the first of them ends.
const LOOKED_AT: usize = 32;

/// What a look at the line says about one in it.
#[derive(Debug)]
pub(super) enum Look {
    /// It holds, under this fencing token.
    Holds(FencingToken),
    /// It waits.
    Waits(Behind),
    /// Its node is not there any more.
    Gone,
}

/// What one waits for.
#[derive(Clone, Debug)]
pub(super) struct Behind {
    /// How many wait in front.
    pub(super) place: u32,
    /// One of those that hold.
    pub(super) holder: Option<Holder>,
    /// The mode in which they do.
    pub(super) phase: Option<Mode>,
    /// When something can change without a sign.
    pub(super) change_in: Duration,
    pub(super) blocker: Blocker,
}

impl Behind {
    /// The same some time later.
    pub(super) fn age(&mut self, by: Duration) {
        const LEAST: Duration = Duration::from_millis(100);
        self.change_in = self
            .change_in
            .saturating_sub(by)
            .max(LEAST.min(self.change_in));
        if let Some(holder) = &mut self.holder {
            holder.remaining = holder.remaining.map(|left| left.saturating_sub(by));
        }
    }
}

/// What is to be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Blocker {
    /// This node.
    Node(String),
    /// Any of those before.
    Any,
}

/// Looks where our node stands, given the children of the name's node.
///
/// A reader or a permit that comes to hold beside others takes over their fencing token, and
/// writes it into its node in one step with a check that the one it has it from still holds: so
/// whoever comes later finds the same, also when the first has left.
pub(super) async fn look(
    shared: &Shared,
    session: &Session,
    (key, id): (&Key, u64),
    node: &Node,
    mut children: Vec<String>,
) -> Result<Look, Failure> {
    let parent = shared.tree.node(key.name.as_str());
    loop {
        let mut line = Line::new(children);
        let Some(place) = line.place(node.name()) else {
            return Ok(Look::Gone);
        };
        if place == 0 {
            return first_in_line(shared, session, (key, id), node).await;
        }
        let heads = heads(shared, session, &key.name, &mut line).await?;
        if line.turn(place) != Turn::Now {
            return Ok(Look::Waits(behind(shared, &key.name, &line, place, &heads)));
        }
        if let Some(Some(first)) = heads.first() {
            let (phase, version) = (first.phase()?, first.stat.version);
            let first = (format!("{parent}/{}", line.children()[0].node), version);
            match join(shared, session, (key, id), node, first, phase).await? {
                Joined::Yes => return Ok(Look::Holds(phase)),
                Joined::WeAreGone => return Ok(Look::Gone),
                Joined::FirstIsChanged => {
                    shared.claims.change(key, id, |claim| {
                        if !matches!(claim.place, Place::Holding(..)) {
                            claim.data.phase = None;
                        }
                    });
                }
            }
        }
        // The first has left or says something else since it was read.
        children = read::children_of(&session.client, &parent).await?;
    }
}

/// The first holds under its own fencing token, unless it joined others before: if the answer to
/// that was lost, its node says whether it did.
async fn first_in_line(
    shared: &Shared,
    session: &Session,
    (key, id): (&Key, u64),
    node: &Node,
) -> Result<Look, Failure> {
    let unsure = shared.claims.get(key, |claim| claim.data.phase.is_some());
    if unsure != Some(true) {
        return Ok(Look::Holds(node.created));
    }
    let own = read::nodes(&session.client, std::slice::from_ref(&node.path)).await?;
    let Some(Some(own)) = own.into_iter().next() else {
        return Ok(Look::Gone);
    };
    let joined = own.data.as_ref().and_then(|data| data.phase);
    shared
        .claims
        .change(key, id, |claim| claim.data.phase = joined);
    Ok(Look::Holds(own.phase()?))
}

/// What one that is not in the line would wait for at its end; none if for nothing.
pub(super) async fn from_outside(
    shared: &Shared,
    session: &Session,
    name: &Name,
    mode: Mode,
    children: Vec<String>,
) -> Result<Option<Behind>, Failure> {
    let mut line = Line::new(children);
    if line.turn_at_end(mode) == Turn::Now {
        return Ok(None);
    }
    let heads = heads(shared, session, name, &mut line).await?;
    let end = line.children().len();
    let waits = line.turn_at_end(mode) != Turn::Now;
    Ok(waits.then(|| behind(shared, name, &line, end, &heads)))
}

/// Reads those that hold, and takes in if the first is a writer that became a reader.
async fn heads(
    shared: &Shared,
    session: &Session,
    name: &Name,
    line: &mut Line,
) -> Result<Vec<Option<Seen>>, Failure> {
    let parent = shared.tree.node(name.as_str());
    let count = line.holders().min(LOOKED_AT);
    let heads = line.children()[..count].iter();
    let paths: Vec<String> = heads
        .map(|child| format!("{parent}/{}", child.node))
        .collect();
    let seen = read::nodes(&session.client, &paths).await?;
    if seen
        .first()
        .is_some_and(|first| first.as_ref().is_some_and(Seen::reads))
    {
        line.first_reads();
    }
    Ok(seen)
}

fn behind(
    shared: &Shared,
    name: &Name,
    line: &Line,
    place: usize,
    heads: &[Option<Seen>],
) -> Behind {
    let parent = shared.tree.node(name.as_str());
    let turn = if place < line.children().len() {
        line.turn(place)
    } else {
        Turn::AfterSome
    };
    let mut holders = Vec::new();
    for (child, seen) in line.children().iter().zip(heads) {
        let Some(seen) = seen else { continue };
        let phase = heads
            .first()
            .and_then(Option::as_ref)
            .unwrap_or(seen)
            .phase();
        if let Ok(phase) = phase {
            holders.push(shared.aged(name, seen.holder(child, phase)));
        }
    }
    let left = |holder: &Holder| holder.remaining.unwrap_or(STRANGER);
    Behind {
        place: u32::try_from(place - line.holders().min(place)).unwrap_or(u32::MAX),
        change_in: holders.iter().map(left).min().unwrap_or(Duration::ZERO),
        phase: line.children().first().map(|child| child.mode),
        holder: holders.into_iter().next(),
        blocker: match turn {
            Turn::After(at) => Blocker::Node(format!("{parent}/{}", line.children()[at].node)),
            Turn::AfterSome | Turn::Now => Blocker::Any,
        },
    }
}

enum Joined {
    Yes,
    FirstIsChanged,
    WeAreGone,
}

async fn join(
    shared: &Shared,
    session: &Session,
    (key, id): (&Key, u64),
    node: &Node,
    (first, version): (String, i32),
    phase: FencingToken,
) -> Result<Joined, Failure> {
    let mut writer = session.client.new_multi_writer();
    // A server may lag: what it said of the first is checked where writes are put in order.
    let checked = writer.add_check_version(&first, version);
    checked.map_err(from_error)?;
    let commit = shared.claims.change(key, id, |claim| {
        claim.data.phase = Some(phase);
        let data = claim.data.write();
        writer
            .add_set_data(&node.path, data.as_bytes(), None)
            .map(|()| writer.commit())
    });
    let Some(commit) = commit.transpose().map_err(from_error)? else {
        return Ok(Joined::WeAreGone);
    };
    match commit.await {
        Ok(_) => Ok(Joined::Yes),
        Err(MultiWriteError::OperationFailed {
            index: 0,
            source: Error::NoNode | Error::BadVersion,
        }) => Ok(Joined::FirstIsChanged),
        Err(MultiWriteError::OperationFailed {
            source: Error::NoNode,
            ..
        }) => Ok(Joined::WeAreGone),
        Err(error) => Err(from_error(error.into())),
    }
}
