//! Looking at what is held and waited for; changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use leasehold_core::{Name, Status};
use tokio::task::JoinSet;

use super::{
    hub::Hub,
    keys::Span,
    line::{Entry, Line},
    members::Trouble,
    proto::{KeyValue, RangeRequest, TxnRequest},
    store::{get, range_of, revision, whole},
};
use crate::backend::{Failure, Page};

/// How many keys are read for a page of a listing.
const PAGE: i64 = 500;
/// How many queues are read in one transaction.
const BATCH: usize = 100;
/// How many leases are asked for at a time.
const AT_ONCE: usize = 32;

/// Who holds `name` and who waits for it.
pub(super) async fn inspect(hub: &Arc<Hub>, name: &Name) -> Result<Status, Failure> {
    let line = hub.store.line(name).await?;
    let leases = remaining(hub, line.entries.iter().map(|entry| entry.lease)).await?;
    Ok(status(hub, name.as_str(), &line, &leases))
}

/// A page of the names that begin with `prefix`.
///
/// All pages are read at the revision of the first, so a name is on exactly one of them: that of
/// its first key. Names that lie below another (`a/b` and `a`) have their keys in between.
pub(super) async fn list(
    hub: &Arc<Hub>,
    prefix: &str,
    after: Option<&str>,
) -> Result<Page, Failure> {
    let Span { from, to } = hub.store.prefix.names(prefix);
    let cursor = after.and_then(Cursor::read);
    let mut range = RangeRequest {
        key: cursor.as_ref().map_or_else(|| from.clone(), Cursor::start),
        range_end: to,
        limit: PAGE,
        revision: cursor.as_ref().map_or(0, |cursor| cursor.revision),
        ..RangeRequest::default()
    };
    let answer = match hub.store.range(&range).await {
        Err(Trouble::Compacted) => {
            range.revision = 0;
            hub.store.range(&range).await?
        }
        answer => answer?,
    };
    let at = match range.revision {
        0 => revision(answer.header.as_ref())?,
        fixed => fixed,
    };
    let next = answer.kvs.last().filter(|_| answer.more).map(|last| {
        let cursor = Cursor {
            revision: at,
            key: last.key.clone(),
        };
        cursor.write()
    });
    let seen = Window {
        from: &range.key,
        first_of_all: &from,
        last: answer
            .kvs
            .last()
            .filter(|_| answer.more)
            .map(|kv| &kv.key[..]),
    };
    let lines = lines(hub, prefix, at, &answer.kvs, &seen).await?;
    let entries = lines.values().flat_map(|line| &line.entries);
    let leases = remaining(hub, entries.map(|entry| entry.lease)).await?;
    let statuses = lines.iter().filter(|(_, line)| !line.entries.is_empty());
    let statuses = statuses.map(|(name, line)| status(hub, name, line, &leases));
    Ok(Page::new(statuses.collect(), next))
}

/// What a page has read of all keys.
struct Window<'a> {
    from: &'a [u8],
    first_of_all: &'a [u8],
    /// None when nothing comes behind it.
    last: Option<&'a [u8]>,
}

impl Window<'_> {
    /// Whether all keys of a span were read.
    fn covers(&self, span: &Span) -> bool {
        let begins = self.from == self.first_of_all || span.from.as_slice() >= self.from;
        begins && self.last.is_none_or(|last| span.to.as_slice() <= last)
    }
}

/// The queues of those names whose first key is on this page.
async fn lines(
    hub: &Hub,
    prefix: &str,
    at: i64,
    kvs: &[KeyValue],
    seen: &Window<'_>,
) -> Result<BTreeMap<String, Line>, Failure> {
    let store = &hub.store;
    let mut by_name: BTreeMap<&str, Vec<KeyValue>> = BTreeMap::new();
    for kv in kvs {
        if let Some((name, _)) = store.prefix.split(&kv.key)
            && name.starts_with(prefix)
        {
            by_name.entry(name).or_default().push(kv.clone());
        }
    }
    let (mut lines, mut partial) = (BTreeMap::new(), Vec::new());
    for (name, kvs) in by_name {
        if seen.covers(&store.prefix.queue(name)) {
            let line = Line::read(&store.prefix, name, at, kvs);
            lines.insert(name.to_owned(), line);
        } else {
            partial.push(name);
        }
    }
    for names in partial.chunks(BATCH) {
        let range = |name: &&str| {
            let mut range = whole(store.prefix.queue(name));
            range.revision = at;
            get(range)
        };
        let txn = TxnRequest {
            success: names.iter().map(range).collect(),
            ..TxnRequest::default()
        };
        let answer = store.txn(&txn).await?.value;
        for (index, name) in names.iter().enumerate() {
            let kvs = range_of(&answer.responses, index)?.kvs.clone();
            let line = Line::read(&store.prefix, name, at, kvs);
            let first = line.entries.iter().map(|entry| &entry.key).min();
            if first.is_some_and(|first| first.as_slice() >= seen.from) {
                lines.insert((*name).to_owned(), line);
            }
        }
    }
    Ok(lines)
}

/// Where the next page begins, and the revision all pages are read at.
struct Cursor {
    revision: i64,
    key: Vec<u8>,
}

impl Cursor {
    fn write(&self) -> String {
        let hex: String = self.key.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}:{hex}", self.revision)
    }

    fn read(text: &str) -> Option<Self> {
        let (revision, hex) = text.split_once(':')?;
        let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        Some(Self {
            revision: revision.parse().ok().filter(|&revision| revision > 0)?,
            key: (0..hex.len()).step_by(2).map(byte).collect::<Option<_>>()?,
        })
    }

    /// The first key behind it.
    fn start(&self) -> Vec<u8> {
        let mut start = self.key.clone();
        start.push(0);
        start
    }
}

fn status(hub: &Hub, name: &str, line: &Line, leases: &HashMap<i64, Duration>) -> Status {
    let wall = hub.clock.wall_micros();
    let left = |entry: &Entry| leases.get(&entry.lease).copied();
    let run = line.run();
    let (holders, waiters) = line.entries.split_at(run);
    let holder = |(at, entry)| line.holder(at, left(entry), Some(wall), entry);
    let holders = holders.iter().enumerate().map(holder).collect();
    let waiting = |entry: &Entry| entry.waiting(left(entry).unwrap_or_default());
    Status::new(name.into(), holders, waiters.iter().map(waiting).collect())
}

/// What each of these leases has left at most.
async fn remaining(
    hub: &Arc<Hub>,
    leases: impl Iterator<Item = i64>,
) -> Result<HashMap<i64, Duration>, Failure> {
    let leases: BTreeSet<i64> = leases.filter(|&lease| lease != 0).collect();
    let (mut answers, mut tasks) = (HashMap::new(), JoinSet::new());
    for lease in leases {
        let hub = Arc::clone(hub);
        tasks.spawn(async move { (lease, hub.store.time_to_live(lease).await) });
        if tasks.len() >= AT_ONCE {
            take_in(tasks.join_next().await, &mut answers)?;
        }
    }
    while !tasks.is_empty() {
        take_in(tasks.join_next().await, &mut answers)?;
    }
    Ok(answers)
}

type Asked = (i64, Result<super::proto::TimeToLiveResponse, Failure>);

fn take_in(
    done: Option<Result<Asked, tokio::task::JoinError>>,
    answers: &mut HashMap<i64, Duration>,
) -> Result<(), Failure> {
    if let Some(Ok((lease, answer))) = done {
        let answer = answer?;
        // Servers cut off what is less than a second.
        let seconds = (answer.ttl + 1).min(answer.granted).max(0);
        let seconds = u64::try_from(seconds).unwrap_or(0);
        answers.insert(lease, Duration::from_secs(seconds));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_anything_else_is_none() {
        let cursor = Cursor {
            revision: 7,
            key: vec![0, 255, b'a'],
        };
        let read = Cursor::read(&cursor.write()).unwrap();
        assert_eq!((read.revision, read.key), (7, vec![0, 255, b'a']));
        for text in ["", "7", "x:00", "7:0", "7:zz", "-1:00", "7:é"] {
            assert!(Cursor::read(text).is_none(), "{text}");
        }
    }
}
