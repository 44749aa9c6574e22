//! Which permits leases have.

use std::sync::Arc;

use leasehold_core::{Mode, Name, Owner, Renewal};

use super::{leases::Leases, roster::Roster, view};
use crate::backend::{
    Failure,
    node::{Claim, Slots},
};

/// The lease as all nodes that count towards it have it. One that another process took is looked
/// up at the nodes, once.
pub(super) async fn claim(
    roster: &Arc<Roster>,
    leases: &Leases,
    renewal: &Renewal,
) -> Result<Claim, Failure> {
    let Renewal { name, owner, .. } = renewal;
    let slots = match (renewal.mode, leases.slots(name, owner)) {
        (Mode::Permit { .. }, Some(slots)) => slots,
        (Mode::Permit { .. }, None) => {
            let found = look_up(roster, name, owner).await?;
            if let Some(slots) = &found {
                leases.find(name, owner, slots.clone());
            }
            found.unwrap_or_else(Slots::nobodys)
        }
        _ => Slots::default(),
    };
    let renewal = renewal.clone();
    Ok(Claim { renewal, slots })
}

/// The slots that a majority gave to `owner`; none if there are no such, for certain.
async fn look_up(
    roster: &Arc<Roster>,
    name: &Name,
    owner: &Owner,
) -> Result<Option<Slots>, Failure> {
    let (name, owner) = (name.clone(), owner.clone());
    let seen = view::ask(roster, move |session| {
        let (name, owner) = (name.clone(), owner.clone());
        Box::pin(async move { session.slots(&name, &owner).await })
    });
    let seen: Vec<Option<Slots>> = seen.await?.into_iter().map(|(_, slots)| slots).collect();
    let silent = roster.members.len() - seen.len();
    let count = |slots: &Slots| seen.iter().flatten().filter(|it| *it == slots).count();
    let most = seen.iter().flatten().max_by_key(|slots| count(slots));
    match most {
        Some(slots) if count(slots) >= roster.size.majority() => Ok(Some(slots.clone())),
        Some(slots) if count(slots) + silent >= roster.size.majority() => Err(Failure::no_answer(
            "too few of the nodes say which permits the lease has",
        )),
        _ => Ok(None),
    }
}
