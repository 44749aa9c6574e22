//! The first look at the nodes.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;

use super::{config::invalid, lists, roster::Roster};
use crate::{backend::Failure, error::ErrorKind};

/// How long the others are waited for when a majority is there. Where all are said to be fresh they
/// have the whole of the time to connect: one that is not seen by then is not known to be fresh.
const GRACE: Duration = Duration::from_millis(500);

/// Waits for a majority, and a little for the others; refuses what can never work.
pub(super) async fn check(roster: &Arc<Roster>) -> Result<(), Failure> {
    let clock = &roster.settings.clock;
    let mut end = clock.now().after(roster.settings.connect_timeout);
    let mut asked = JoinSet::new();
    for at in 0..roster.members.len() {
        let roster = Arc::clone(roster);
        asked.spawn(async move { (at, roster.session(at).await.map(drop)) });
    }
    let mut present = 0;
    let mut causes = vec![None; roster.members.len()];
    loop {
        let answer = tokio::select! { biased;
            answer = asked.join_next() => answer,
            () = clock.sleep_until(end) => None,
        };
        match answer {
            Some(Ok((_, Ok(())))) => {
                present += 1;
                if present == roster.size.majority() && !roster.settings.assume_fresh {
                    end = end.min(clock.now().after(GRACE));
                }
            }
            Some(Ok((at, Err(failure)))) => causes[at] = Some(refuse(roster, at, failure)?),
            Some(Err(_)) | None => break,
        }
    }
    if let Some((_, words)) = roster.objections().first() {
        return Err(
            invalid(format!("these nodes cannot hold locks together: {words}"))
                .with_hint("list servers that stand alone, each once"),
        );
    }
    if present < roster.size.majority() {
        return Err(absent(roster, &causes));
    }
    lists::meet_all(roster, GRACE.max(roster.settings.connect_timeout / 4)).await;
    if let Some(conflict) = roster.conflicts().first() {
        return Err(invalid(&*conflict.words).with_hint(
            "give all clients the same nodes and the same max_ttl; to change them, stop all \
             clients and wait for max_ttl and a minute",
        ));
    }
    if roster.settings.assume_fresh {
        roster.assume_fresh();
    }
    for (member, cause) in roster.members.iter().zip(&causes) {
        if let Some(cause) = cause {
            tracing::warn!(node = member.address, %cause, "a node is not there yet");
        }
    }
    Ok(())
}

/// A server that can never be a node refuses the list; one that is away is a cause.
fn refuse(roster: &Roster, at: usize, failure: Failure) -> Result<Failure, Failure> {
    let never = matches!(
        failure.kind(),
        ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::Protocol
    );
    if !never {
        return Ok(failure);
    }
    let message = format!("{}: {failure}", roster.members[at].address);
    Err(invalid(message).with_hint("list servers that stand alone, each once"))
}

fn absent(roster: &Roster, causes: &[Option<Failure>]) -> Failure {
    let members = roster.members.iter().zip(causes);
    let causes: Vec<String> = members
        .filter_map(|(member, cause)| {
            let cause = cause.as_ref()?;
            Some(format!("{}: {cause}", member.address))
        })
        .collect();
    Failure::unavailable(format!("no majority of the nodes; {}", causes.join("; ")))
}
