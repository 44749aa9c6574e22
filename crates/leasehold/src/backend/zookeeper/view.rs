//! Looking at what is held and waited for, and ending a lease as an operator.

use std::sync::Arc;

use leasehold_core::{Name, Status, Waiting};
use zookeeper_client::Error;

use super::{
    claims::Key,
    failure::from_error,
    keys::{self, Child},
    line::Line,
    read::{self, Seen},
    session::Session,
    shared::Shared,
};
use crate::backend::{Failure, Page};

/// How many names a page of a listing looks at.
const PAGE: usize = 200;

pub(super) async fn inspect(shared: &Shared, name: &Name) -> Result<Status, Failure> {
    let session = shared.sessions.current().await?;
    let parent = shared.tree.node(name.as_str());
    let children = read::children_now(&session.client, &parent).await?;
    let named = vec![(name.clone(), children)];
    let status = statuses(shared, &session, named).await?.pop();
    Ok(status.unwrap_or_else(|| Status::new(name.as_str().into(), Vec::new(), Vec::new())))
}

pub(super) async fn list(
    shared: &Shared,
    prefix: &str,
    after: Option<&str>,
) -> Result<Page, Failure> {
    let session = shared.sessions.current().await?;
    let nodes = read::children_now(&session.client, shared.tree.root()).await?;
    let mut names: Vec<String> = nodes.iter().filter_map(|node| keys::decode(node)).collect();
    names.retain(|name| name.starts_with(prefix) && after.is_none_or(|after| **name > *after));
    names.sort_unstable();
    let more = names.len() > PAGE;
    names.truncate(PAGE);
    let next = if more { names.last().cloned() } else { None };
    let names: Vec<Name> = names
        .into_iter()
        .filter_map(|name| Name::new(name).ok())
        .collect();
    let paths: Vec<String> = names
        .iter()
        .map(|name| shared.tree.node(name.as_str()))
        .collect();
    let lists = read::children(&session.client, &paths).await?;
    let mut entries = statuses(shared, &session, names.into_iter().zip(lists).collect()).await?;
    entries.retain(|status| !status.is_free());
    Ok(Page::new(entries, next))
}

/// Removes the node of the holder that `observed` names: its owner, or for a stranger its node.
pub(super) async fn force(
    shared: &Arc<Shared>,
    name: &Name,
    observed: &str,
) -> Result<bool, Failure> {
    let session = shared.sessions.current().await?;
    let parent = shared.tree.node(name.as_str());
    let children = read::children_now(&session.client, &parent).await?;
    let named = vec![(name.clone(), children)];
    let Some((_, line, seen)) = read_lines(shared, &session, named).await?.pop() else {
        return Ok(false);
    };
    for (child, seen) in line.children().iter().zip(&seen).take(line.holders()) {
        let value = seen
            .data
            .as_ref()
            .map_or(child.node.as_str(), |data| data.owner.as_str());
        if value != observed {
            continue;
        }
        // The node's own name is never used again: what is removed is what was observed.
        return match session
            .client
            .delete(&format!("{parent}/{}", child.node), None)
            .await
        {
            Ok(()) => Ok(true),
            Err(Error::NoNode) => Ok(false),
            Err(error) => Err(from_error(error)),
        };
    }
    Ok(false)
}

/// What holds and what waits, of those names that have anything.
async fn statuses(
    shared: &Shared,
    session: &Session,
    named: Vec<(Name, Vec<String>)>,
) -> Result<Vec<Status>, Failure> {
    let lines = read_lines(shared, session, named).await?;
    lines
        .iter()
        .map(|(name, line, seen)| status(shared, name, line, seen))
        .collect()
}

type ReadLine = (Name, Line, Vec<Seen>);

/// Each name's line with what its nodes hold.
async fn read_lines(
    shared: &Shared,
    session: &Session,
    named: Vec<(Name, Vec<String>)>,
) -> Result<Vec<ReadLine>, Failure> {
    let lines: Vec<(Name, Line)> = named
        .into_iter()
        .map(|(name, children)| (name, Line::new(children)))
        .collect();
    let paths = |(name, line): &(Name, Line)| -> Vec<String> {
        let parent = shared.tree.node(name.as_str());
        line.children()
            .iter()
            .map(|child| format!("{parent}/{}", child.node))
            .collect()
    };
    let paths: Vec<String> = lines.iter().flat_map(paths).collect();
    let mut all = read::nodes(&session.client, &paths).await?.into_iter();
    let mut read = Vec::with_capacity(lines.len());
    for (name, line) in lines {
        let (mut nodes, mut seen) = (Vec::new(), Vec::new());
        for (child, found) in line.children().iter().zip(all.by_ref()) {
            // One that has left since is not in the line any more.
            if let Some(found) = found {
                nodes.push(child.node.clone());
                seen.push(found);
            }
        }
        let mut line = Line::new(nodes);
        if seen.first().is_some_and(Seen::reads) {
            line.first_reads();
        }
        if !seen.is_empty() {
            read.push((name, line, seen));
        }
    }
    Ok(read)
}

fn status(shared: &Shared, name: &Name, line: &Line, seen: &[Seen]) -> Result<Status, Failure> {
    let (mut holders, mut waiters) = (Vec::new(), Vec::new());
    let count = line.holders();
    for (place, (child, one)) in line.children().iter().zip(seen).enumerate() {
        if place < count {
            holders.push(shared.aged(name, one.holder(child, seen[0].phase()?)));
        } else {
            waiters.push(waiting(shared, name, child, one)?);
        }
    }
    Ok(Status::new(name.as_str().into(), holders, waiters))
}

fn waiting(shared: &Shared, name: &Name, child: &Child, seen: &Seen) -> Result<Waiting, Failure> {
    let ticket = read::created(&seen.stat)?.get();
    let Some(data) = &seen.data else {
        return Ok(Waiting::foreign(child.node.clone(), child.mode, ticket));
    };
    let waiting = Waiting::new(&data.owner, data.mode, ticket, data.ttl.get());
    Ok(shared.aged_waiting(&Key::new(name, &data.owner), waiting))
}
