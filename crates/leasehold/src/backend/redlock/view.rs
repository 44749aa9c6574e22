//! What the nodes together say about names.

use std::{cmp::Reverse, collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use leasehold_core::{FencingToken, Holder, HolderKind, Name, NodeView, Status};
use tokio::task::JoinSet;

use super::{limit, notes, roster::Roster};
use crate::backend::{
    Failure, Page,
    node::{Reply, Session},
};

/// What each node answered, in their order; `None` where there was no answer.
type Answers<T> = Vec<Option<Result<T, Failure>>>;

/// Asks every node, and gives what those answered that did; fails unless a majority did.
pub(super) async fn ask<T, F>(roster: &Arc<Roster>, question: F) -> Result<Vec<(usize, T)>, Failure>
where
    T: Send + 'static,
    F: Fn(Arc<dyn Session>) -> Reply<'static, Result<T, Failure>> + Send + Sync + 'static,
{
    let answers = poll(roster, question).await;
    if count(&answers) < roster.size.majority() {
        return Err(no_majority(roster, &answers, |_| "answered".into()));
    }
    let said = |(at, answer): (usize, Option<Result<T, Failure>>)| Some((at, answer?.ok()?));
    Ok(answers.into_iter().enumerate().filter_map(said).collect())
}

/// All are waited for, for a while: what only some say is easily taken for what a majority says.
async fn poll<T, F>(roster: &Arc<Roster>, question: F) -> Answers<T>
where
    T: Send + 'static,
    F: Fn(Arc<dyn Session>) -> Reply<'static, Result<T, Failure>> + Send + Sync + 'static,
{
    /// How long the others are waited for when a majority has answered; a majority twice that.
    const LIMIT: Duration = Duration::from_secs(2);
    let question = Arc::new(question);
    let mut asked = JoinSet::new();
    for at in 0..roster.members.len() {
        let (roster, question) = (Arc::clone(roster), Arc::clone(&question));
        asked.spawn(async move {
            let answer = match roster.session(at).await {
                Ok(session) => question(session).await,
                Err(failure) => Err(failure),
            };
            (at, answer)
        });
    }
    let clock = &roster.settings.clock;
    let mut first = pin!(limit::pass(clock, LIMIT));
    let mut last = pin!(limit::pass(clock, LIMIT * 2));
    let mut is_late = false;
    let mut answers: Answers<T> = roster.members.iter().map(|_| None).collect();
    while !(is_late && count(&answers) >= roster.size.majority()) {
        let answer = tokio::select! { biased;
            answer = asked.join_next() => answer,
            () = &mut first, if !is_late => {
                is_late = true;
                continue;
            }
            () = &mut last => None,
        };
        match answer {
            Some(Ok((at, answer))) => answers[at] = Some(answer),
            Some(Err(_)) | None => break,
        }
    }
    asked.detach_all();
    answers
}

/// How many nodes said something.
fn count<T>(answers: &Answers<T>) -> usize {
    answers
        .iter()
        .filter(|answer| matches!(answer, Some(Ok(_))))
        .count()
}

fn no_majority<T>(
    roster: &Roster,
    answers: &Answers<T>,
    describe: impl Fn(&T) -> String,
) -> Failure {
    let members = roster.members.iter().zip(answers);
    let said = members.map(|(member, answer)| {
        let said = match answer {
            Some(Ok(answer)) => describe(answer),
            Some(Err(failure)) => failure.to_string(),
            None => "no answer".into(),
        };
        format!("{}: {said}", member.address)
    });
    let said: Vec<String> = said.collect();
    let message = "no majority of the nodes answers";
    Failure::no_answer(format!("{message}; {}", said.join("; ")))
}

/// The word of each node, of those too that have no vote.
fn words(roster: &Roster, answers: Answers<Status>) -> Vec<NodeView> {
    let view = |(at, answer): (usize, Option<Result<Status, Failure>>)| {
        let address = roster.members[at].address.clone();
        match answer {
            Some(Ok(status)) => {
                let view = NodeView::new(address, Some(status.holders));
                match roster.no_vote(at) {
                    Some(objection) => view.without_vote(objection.words, objection.left),
                    None => view,
                }
            }
            Some(Err(failure)) => {
                NodeView::new(address, None).without_vote(failure.to_string(), None)
            }
            None => NodeView::new(address, None).without_vote("no answer".into(), None),
        }
    };
    answers.into_iter().enumerate().map(view).collect()
}

/// Who holds: those that a majority of the nodes names, or may name together with nodes whose word
/// is missing or cannot be trusted. Others have not got it, or not any more.
fn holders(roster: &Roster, views: &[NodeView]) -> Vec<Holder> {
    let majority = roster.size.majority();
    let mut named: BTreeMap<&str, Vec<&Holder>> = BTreeMap::new();
    for holder in views
        .iter()
        .filter_map(|view| view.holders.as_ref())
        .flatten()
    {
        named.entry(&holder.value).or_default().push(holder);
    }
    let holds = |(owner, mut named): (&str, Vec<&Holder>)| {
        let silent = views.iter().filter(|view| view.may_have(owner)).count();
        if named.len() + silent < majority {
            return None;
        }
        // The lease lasts as long as a majority has it.
        named.sort_unstable_by_key(|holder| Reverse(holder.remaining));
        let mut holder = Holder::clone(named[0]);
        holder.remaining = named[named.len().min(majority) - 1].remaining;
        holder.token = common(&named);
        holder.note = notes::last(&named);
        // One that gave it up on a node gives it up on all.
        if named.iter().any(|holder| holder.kind == HolderKind::Kept) {
            holder.kind = HolderKind::Kept;
        }
        Some(holder)
    };
    named.into_iter().filter_map(holds).collect()
}

/// The fencing token that most nodes have: those that won the lock have the same. One that was late
/// has another, which may be greater.
fn common(named: &[&Holder]) -> Option<FencingToken> {
    let tokens = || named.iter().filter_map(|holder| holder.token);
    let frequency = |token: &FencingToken| tokens().filter(|other| other == token).count();
    tokens().max_by_key(|token| (frequency(token), *token))
}

pub(super) async fn inspect(roster: &Arc<Roster>, name: &Name) -> Result<Status, Failure> {
    let asked = name.clone();
    let answers = poll(roster, move |session| {
        let name = asked.clone();
        Box::pin(async move { session.inspect(&name).await })
    });
    let answers = answers.await;
    if count(&answers) < roster.size.majority() {
        return Err(no_majority(roster, &answers, describe));
    }
    let mut views = words(roster, answers);
    let holders = holders(roster, &views);
    let named = views.iter_mut().filter_map(|view| view.holders.as_mut());
    for holder in named.flatten() {
        holder.note = holder.note.as_deref().map(|note| notes::plain(note).into());
    }
    Ok(Status::new(name.as_str().into(), holders, Vec::new()).with_nodes(views))
}

/// What one node says, in an error.
fn describe(status: &Status) -> String {
    match status.holders.first() {
        Some(holder) => format!("held by {}", holder.value),
        None => "free".into(),
    }
}

/// A page of names, which each node gives in order: as far as all of them have got.
pub(super) async fn list(
    roster: &Arc<Roster>,
    prefix: &str,
    after: Option<&str>,
) -> Result<Page, Failure> {
    let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
    let pages = poll(roster, move |session| {
        let (prefix, after) = (prefix.clone(), after.clone());
        Box::pin(async move { session.list(&prefix, after.as_deref()).await })
    });
    let pages = pages.await;
    if count(&pages) < roster.size.majority() {
        return Err(no_majority(roster, &pages, |_| "answered".into()));
    }
    let next = |page: &Option<Result<Page, Failure>>| page.as_ref()?.as_ref().ok()?.next.clone();
    let next = pages.iter().filter_map(next).min();
    // Of a name that is on no page of a node, that node says that it is free.
    let free = |_: &Page| Status::new(String::new(), Vec::new(), Vec::new());
    let said = |page: &Result<Page, Failure>| page.as_ref().map(free).map_err(Clone::clone);
    let silent = words(
        roster,
        pages.iter().map(|it| it.as_ref().map(said)).collect(),
    );
    let mut views: BTreeMap<String, Vec<NodeView>> = BTreeMap::new();
    for (at, page) in pages.into_iter().enumerate() {
        for status in page.into_iter().flatten().flat_map(|page| page.entries) {
            if next.as_ref().is_none_or(|next| status.name <= *next) {
                let views = views.entry(status.name);
                views.or_insert_with(|| silent.clone())[at].holders = Some(status.holders);
            }
        }
    }
    let entry = |(name, views): (String, Vec<NodeView>)| {
        Status::new(name, holders(roster, &views), Vec::new())
    };
    let held = views.into_iter().map(entry).filter(|it| !it.is_free());
    Ok(Page::new(held.collect(), next))
}
