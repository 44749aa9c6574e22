//! Giving leases up on all nodes.

use std::{sync::Arc, time::Duration};

use leasehold_core::{Name, Owner, Released, Ttl};
use tokio::sync::mpsc;

use super::{
    lane::{self, Order},
    leases::Leases,
    roster::Roster,
};
use crate::backend::{Failure, node::Leave};

/// Releases everywhere, and answers as soon as enough nodes have. On the others it goes on until
/// they have answered, or the lease is over.
pub(super) async fn release(
    roster: &Arc<Roster>,
    leases: &Leases,
    name: &Name,
    owner: &Owner,
    min_hold: Option<Duration>,
) -> Result<Released, Failure> {
    let mut answers = order(roster, leases, name, owner, min_hold);
    let size = roster.size;
    let (mut gave, mut had_not, mut kept, mut causes) = (0, 0, false, Vec::new());
    let released = |kept| {
        if kept {
            Released::Kept
        } else {
            Released::Released
        }
    };
    while let Some((at, answer)) = answers.recv().await {
        match answer {
            Ok(Released::Released) => gave += 1,
            Ok(Released::Kept) => (gave, kept) = (gave + 1, true),
            Ok(Released::NotOurs) => had_not += 1,
            Err(failure) => {
                causes.push(format!("{}: {failure}", roster.members[at].address));
            }
        }
        if gave >= size.majority() {
            return Ok(released(kept));
        }
        // As a renewal has it: no majority can be left. What a node gave late is not a lock.
        if had_not > size.spare() {
            return Ok(Released::NotOurs);
        }
    }
    if gave + had_not < size.majority() {
        let message = "no majority of the nodes released";
        return Err(Failure::no_answer(format!(
            "{message}; {}",
            causes.join("; ")
        )));
    }
    Ok(released(kept))
}

/// Releases on every node, through its lane where that is still at work.
fn order(
    roster: &Arc<Roster>,
    leases: &Leases,
    name: &Name,
    owner: &Owner,
    min_hold: Option<Duration>,
) -> mpsc::UnboundedReceiver<(usize, Result<Released, Failure>)> {
    let (sender, answers) = mpsc::unbounded_channel();
    leases.give_up(owner);
    let lease = leases.remove(name, owner);
    let now = roster.settings.clock.now();
    let how = Leave {
        tell: true,
        min_hold,
        held_for: lease.as_ref().map(|lease| now - lease.since),
    };
    let longest = Ttl::clamped(roster.settings.max_ttl);
    let mut lanes = lease.map(|lease| lease.lanes).unwrap_or_default();
    for at in 0..roster.members.len() {
        let lane = lanes.get_mut(at).and_then(Option::take);
        let order = Order::Release(owner.clone(), how, sender.clone());
        if lane.is_some_and(|lane| lane.send(order).is_ok()) {
            continue;
        }
        let parting = lane::Parting {
            roster: Arc::clone(roster),
            at,
            name: name.clone(),
            owner: owner.clone(),
            // It may have been lengthened since.
            ttl: longest,
        };
        let sender = sender.clone();
        let before = leases.end_of(owner, at);
        tokio::spawn(async move {
            // An attempt that was given up may still be on its way there.
            if let Some(before) = before {
                before.cancelled().await;
            }
            parting.tell_and_finish(how, &sender).await;
        });
    }
    answers
}
