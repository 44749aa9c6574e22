//! Whether other clients vote among the same nodes.
//!
//! Two clients with different lists of nodes can each have a majority of its own. So each client
//! notes on every node which nodes it has, and for how long a lease can last; who comes later and
//! has others is refused. Servers are known by their process and by their address: either may
//! change, the process by a restart, and the address because clients name servers differently.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::roster::Roster;
use crate::backend::{
    Failure,
    node::{Met, Seen},
};

/// How often a client notes its list again.
pub(super) const AGAIN: Duration = Duration::from_secs(10);

/// For how long a list counts when its client is silent, besides the longest lease it can have.
const GRACE: Duration = Duration::from_secs(30);

/// The nodes of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    max_ttl: Duration,
    /// Of each node the id of its process, empty where that is not known, and its address.
    nodes: Vec<(String, String)>,
}

impl List {
    fn of(roster: &Roster) -> Self {
        let facts = roster.facts();
        let members = roster.members.iter().zip(&facts);
        let node = members.map(|(member, facts)| {
            let run_id = facts.as_ref().and_then(|facts| facts.run_id.clone());
            (run_id.unwrap_or_default(), member.address.clone())
        });
        let mut nodes: Vec<_> = node.collect();
        nodes.sort_unstable();
        Self {
            max_ttl: roster.settings.max_ttl,
            nodes,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (max_ttl, nodes) = text.split_once(';')?;
        let node = |text: &str| {
            let (run_id, address) = text.split_once('@')?;
            Some((run_id.to_owned(), address.to_owned()))
        };
        Some(Self {
            max_ttl: Duration::from_millis(max_ttl.parse().ok()?),
            nodes: nodes.split(',').map(node).collect::<Option<_>>()?,
        })
    }

    fn text(&self) -> String {
        let node = |(run_id, address): &(String, String)| format!("{run_id}@{address}");
        let nodes: Vec<String> = self.nodes.iter().map(node).collect();
        format!("{};{}", self.max_ttl.as_millis(), nodes.join(","))
    }
}

/// Looks at the lists of others on the node, and notes this client's there, unless one that was
/// there before is another: then that is remembered, and nothing is noted.
pub(super) async fn meet(roster: &Roster, at: usize) -> Result<(), Failure> {
    look(roster, at, None).await?;
    note(roster, at).await
}

/// As [`meet`], on every node that was seen, each of the two steps for `limit` at most.
///
/// First all are looked at: a client that is refused by one node must note nothing on another. If
/// that has just forgotten its lists, those that vote among it would come later than this one.
pub(super) async fn meet_all(roster: &Arc<Roster>, limit: Duration) {
    on_all(roster, limit, |roster, at| async move {
        look(&roster, at, None).await
    })
    .await;
    on_all(roster, limit, |roster, at| async move {
        note(&roster, at).await
    })
    .await;
}

/// Notes this client's list on the node, if no node speaks against it. One that was noted since
/// this client looked is seen now.
async fn note(roster: &Roster, at: usize) -> Result<(), Failure> {
    if roster.conflicts().is_empty() {
        look(roster, at, Some(&List::of(roster).text())).await?;
    }
    Ok(())
}

async fn look(roster: &Roster, at: usize, list: Option<&str>) -> Result<(), Failure> {
    let session = roster.session(at).await?;
    let met = session.meet(GRACE, list).await?;
    let own = List::of(roster);
    let conflict = conflict(&own, &met, |list| roster.may_be_new_to(list));
    roster.met(at, met.offset_micros, conflict);
    Ok(())
}

async fn on_all<F>(roster: &Arc<Roster>, limit: Duration, step: impl Fn(Arc<Roster>, usize) -> F)
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let clock = &roster.settings.clock;
    let end = clock.now().after(limit);
    let mut met = tokio::task::JoinSet::new();
    for (at, facts) in roster.facts().iter().enumerate() {
        if facts.is_some() {
            let (node, step) = (
                roster.members[at].address.clone(),
                step(Arc::clone(roster), at),
            );
            met.spawn(async move {
                if let Err(failure) = step.await {
                    tracing::debug!(node, %failure, "the list of nodes is not noted");
                }
            });
        }
    }
    loop {
        let done = tokio::select! { biased;
            done = met.join_next() => done,
            () = clock.sleep_until(end) => None,
        };
        if done.is_none() {
            met.detach_all();
            return;
        }
    }
}

/// How another's list differs from ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) words: String,
    /// Whether it can be no more than a restart that the other has not noticed.
    pub(super) may_be_restart: bool,
    /// Whether it keeps this client from voting even when it is noticed only later. One server that
    /// is named differently and was restarted, where the other cannot reach it, is no reason.
    pub(super) is_grave: bool,
}

/// How a list that was there before ours differs from it.
fn conflict(own: &List, met: &Met, is_news: impl Fn(Duration) -> bool) -> Option<Conflict> {
    let known: Vec<List> = met
        .seen
        .iter()
        .filter_map(|it| List::parse(&it.list))
        .collect();
    let names = Names::of(known.iter().chain([own]));
    let is_ours = |seen: &&Seen| {
        let other = List::parse(&seen.list);
        other.is_some_and(|other| difference(own, &other, &names).is_none())
    };
    let ours = met.seen.iter().filter(is_ours).map(|seen| seen.first).max();
    let is_before = |seen: &&Seen| ours.is_none_or(|ours| seen.first > ours);
    let before = met.seen.iter().filter(is_before);
    let differs = |seen: &Seen| {
        let other = List::parse(&seen.list)?;
        // What was restarted since may be known to it under its former process.
        difference(own, &other, &names).filter(|it| !it.may_be_restart || !is_news(seen.last))
    };
    before.into_iter().find_map(differs)
}

fn difference(own: &List, other: &List, names: &Names) -> Option<Conflict> {
    if own.max_ttl != other.max_ttl {
        let (own, other) = (own.max_ttl, other.max_ttl);
        return Some(Conflict {
            words: format!("another client of these nodes has max_ttl {other:?}, this one {own:?}"),
            may_be_restart: false,
            is_grave: true,
        });
    }
    let (mine, theirs) = (names.all(own), names.all(other));
    let only = |list: &List, without: &BTreeSet<usize>| {
        let other = |node: &&(String, String)| !without.contains(&names.number(node));
        let only: Vec<&str> = list.nodes.iter().filter(other).map(|it| &*it.1).collect();
        if only.is_empty() {
            "none besides".to_owned()
        } else {
            only.join(", ")
        }
    };
    let may_be_restart =
        own.nodes.len() == other.nodes.len() && !are_named_alike(own, other, names);
    (mine != theirs).then(|| Conflict {
        words: format!(
            "another client of these nodes has another list: it has {}, this one {}",
            only(other, &mine),
            only(own, &theirs)
        ),
        may_be_restart,
        is_grave: !may_be_restart || mine.difference(&theirs).count() > 1,
    })
}

/// Whether both have the same address for each server that both have. Then one that only one of
/// them has is another server, and not one that the other names differently.
fn are_named_alike(own: &List, other: &List, names: &Names) -> bool {
    let theirs = names.all(other);
    let mut shared = own
        .nodes
        .iter()
        .filter(|it| theirs.contains(&names.number(it)));
    shared.all(|(_, mine)| other.nodes.iter().any(|(_, theirs)| theirs == mine))
}

/// Which processes and addresses belong to one server: a number for each.
#[derive(Debug, Default)]
struct Names(BTreeMap<String, usize>);

impl Names {
    fn of<'a>(lists: impl Iterator<Item = &'a List>) -> Self {
        let mut names = Self::default();
        for (run_id, address) in lists.flat_map(|list| &list.nodes) {
            names.join(run_id, address);
        }
        names
    }

    fn join(&mut self, run_id: &str, address: &str) {
        let fresh = self.0.len();
        let number = *self.0.entry(format!("@{address}")).or_insert(fresh);
        if run_id.is_empty() {
            return;
        }
        let other = *self.0.entry(run_id.to_owned()).or_insert(number);
        for joined in self.0.values_mut().filter(|it| **it == other) {
            *joined = number;
        }
    }

    fn number(&self, (_, address): &(String, String)) -> usize {
        let number = self.0.get(&format!("@{address}"));
        number.copied().unwrap_or(usize::MAX)
    }

    fn all(&self, list: &List) -> BTreeSet<usize> {
        list.nodes.iter().map(|node| self.number(node)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(max_ttl: u64, nodes: &[(&str, &str)]) -> List {
        let own = |(run_id, address): &(&str, &str)| ((*run_id).into(), (*address).into());
        List {
            max_ttl: Duration::from_secs(max_ttl),
            nodes: nodes.iter().map(own).collect(),
        }
    }

    fn seen(list: &List, first: u64, last: u64) -> Seen {
        Seen {
            list: list.text(),
            first: Duration::from_secs(first),
            last: Duration::from_secs(last),
        }
    }

    fn found(own: &List, seen: Vec<Seen>, is_news: bool) -> Option<String> {
        let met = Met {
            offset_micros: 0,
            seen,
        };
        conflict(own, &met, |_| is_news).map(|it| it.words)
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let written = list(60, &[("", "redis://a:1/0"), ("x", "redis://b:1/0")]);
        assert_eq!(List::parse(&written.text()), Some(written));
        for text in ["", "60;", "x;a@b", "60;a@b,c"] {
            assert_eq!(List::parse(text), None, "{text}");
        }
    }

    #[test]
    fn other_nodes_and_another_max_ttl_are_named() {
        let own = list(60, &[("x", "a"), ("y", "b"), ("z", "c")]);
        let other = list(60, &[("x", "a"), ("y", "b"), ("w", "d")]);
        let words = found(&own, vec![seen(&other, 9, 1)], false).expect("another");
        assert!(words.contains("it has d, this one c"), "{words}");
        let fewer = list(60, &[("x", "a"), ("y", "b")]);
        let words = found(&own, vec![seen(&fewer, 9, 1)], true).expect("fewer");
        assert!(words.contains("it has none besides, this one c"), "{words}");
        let brief = list(5, &[("x", "a"), ("y", "b"), ("z", "c")]);
        let words = found(&own, vec![seen(&brief, 9, 1)], true).expect("shorter");
        assert!(words.contains("5s") && words.contains("60s"), "{words}");
    }

    #[test]
    fn one_server_may_have_several_names_and_be_restarted() {
        let own = list(60, &[("x", "a"), ("y", "b"), ("z2", "c")]);
        let aliases = list(60, &[("x", "one"), ("y", "two"), ("", "three")]);
        let before = list(60, &[("x", "one"), ("y", "two"), ("z", "three")]);
        let after = list(60, &[("x", "one"), ("y", "two"), ("z2", "three")]);
        assert_eq!(found(&own, vec![seen(&after, 9, 1)], false), None);
        let all = vec![
            seen(&aliases, 9, 8),
            seen(&before, 8, 5),
            seen(&after, 5, 1),
        ];
        assert_eq!(found(&own, all, false), None, "told apart by the newest");
        let stale = vec![seen(&before, 8, 5)];
        assert_eq!(found(&own, stale.clone(), true), None, "perhaps a restart");
        assert!(found(&own, stale, false).is_some());
    }

    #[test]
    fn a_new_server_in_anothers_place_is_no_restart() {
        let own = list(60, &[("x", "a"), ("y", "b"), ("new", "d")]);
        let other = list(60, &[("x", "a"), ("y", "b"), ("z", "c")]);
        assert!(found(&own, vec![seen(&other, 99, 5)], true).is_some());
        let names = Names::of([&own, &other].into_iter());
        let found = difference(&own, &other, &names).expect("another");
        assert!(found.is_grave && !found.may_be_restart);
    }

    #[test]
    fn who_was_there_first_stays() {
        let own = list(60, &[("x", "a"), ("y", "b"), ("z", "c")]);
        let other = list(60, &[("x", "a"), ("y", "b"), ("w", "d")]);
        let both = |first| vec![seen(&own, 5, 1), seen(&other, first, 1)];
        assert_eq!(found(&own, both(4), false), None);
        assert!(found(&own, both(6), false).is_some());
    }
}
