//! What the nodes together say about names.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use leasehold_core::{Holder, Name, Status};
use tokio::task::JoinSet;

use super::roster::Roster;
use crate::backend::{
    Failure, Page,
    node::{Reply, Session},
};

/// Asks every node, and gives what those answered that did; fails unless a majority did.
pub(super) async fn ask<T, F>(roster: &Arc<Roster>, question: F) -> Result<Vec<(usize, T)>, Failure>
where
    T: Send + 'static,
    F: Fn(Arc<dyn Session>) -> Reply<'static, Result<T, Failure>> + Send + Sync + 'static,
{
    /// How long nodes that do not answer are waited for.
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
    let stuck = roster.stuck();
    let end = clock.now().after(LIMIT);
    let (mut answers, mut causes) = (Vec::new(), Vec::new());
    loop {
        let missing = roster.members.len() - answers.len() - causes.len();
        if answers.len() >= roster.size.majority() && missing <= stuck.len() {
            break;
        }
        let answer = tokio::select! { biased;
            answer = asked.join_next() => answer,
            () = clock.sleep_until(end) => None,
        };
        match answer {
            Some(Ok((at, Ok(answer)))) => answers.push((at, answer)),
            Some(Ok((at, Err(failure)))) => {
                causes.push(format!("{}: {failure}", roster.members[at].address));
            }
            Some(Err(_)) | None => break,
        }
    }
    asked.detach_all();
    if answers.len() < roster.size.majority() {
        let message = "no majority of the nodes answers";
        return Err(Failure::no_answer(format!(
            "{message}; {}",
            causes.join("; ")
        )));
    }
    answers.sort_unstable_by_key(|(at, _)| *at);
    Ok(answers)
}

/// Who holds `name`: those that a majority of the nodes names. Others have not got it, or not any
/// more, and are nobody's holder.
pub(super) fn together(roster: &Roster, name: &str, views: Vec<Status>) -> Status {
    let mut named: BTreeMap<String, Vec<Holder>> = BTreeMap::new();
    for holder in views.into_iter().flat_map(|view| view.holders) {
        named.entry(holder.value.clone()).or_default().push(holder);
    }
    let majority = roster.size.majority();
    let holders = named.into_values().filter(|views| views.len() >= majority);
    let holders = holders.filter_map(|mut views| {
        // The lease lasts as long as a majority has it, under the greatest fencing token.
        views.sort_unstable_by_key(|holder| std::cmp::Reverse(holder.remaining));
        let remaining = views.get(majority - 1)?.remaining;
        let token = views.iter().filter_map(|holder| holder.token).max();
        let mut holder = views.swap_remove(0);
        holder.remaining = remaining;
        holder.token = token;
        Some(holder)
    });
    Status::new(name.into(), holders.collect(), Vec::new())
}

pub(super) async fn inspect(roster: &Arc<Roster>, name: &Name) -> Result<Status, Failure> {
    let asked = name.clone();
    let views = ask(roster, move |session| {
        let name = asked.clone();
        Box::pin(async move { session.inspect(&name).await })
    });
    let views = views.await?.into_iter().map(|(_, view)| view).collect();
    Ok(together(roster, name.as_str(), views))
}

/// A page of names, which each node gives in order: as far as all of them have got.
pub(super) async fn list(
    roster: &Arc<Roster>,
    prefix: &str,
    after: Option<&str>,
) -> Result<Page, Failure> {
    let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
    let pages = ask(roster, move |session| {
        let (prefix, after) = (prefix.clone(), after.clone());
        Box::pin(async move { session.list(&prefix, after.as_deref()).await })
    });
    let pages: Vec<Page> = pages.await?.into_iter().map(|(_, page)| page).collect();
    let next = pages.iter().filter_map(|page| page.next.clone()).min();
    let mut views: BTreeMap<String, Vec<Status>> = BTreeMap::new();
    for status in pages.into_iter().flat_map(|page| page.entries) {
        if next.as_ref().is_none_or(|next| status.name <= *next) {
            views.entry(status.name.clone()).or_default().push(status);
        }
    }
    let entries = views
        .into_iter()
        .map(|(name, views)| together(roster, &name, views));
    let held = entries.filter(|status| !status.is_free());
    Ok(Page::new(held.collect(), next))
}
