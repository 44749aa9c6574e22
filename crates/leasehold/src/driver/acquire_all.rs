//! Takes several locks or none in one step of the store.

use std::sync::Arc;

use leasehold_core::{Grant, Instant, Owner, Request, validity};

use super::{
    Driver,
    acquire::Ask,
    held::{Held, Identity},
    release::Undo,
};
use crate::{
    backend::Sent,
    error::{Error, ErrorKind, Result},
};

/// Takes all of `asks` now, or answers `None` when one is not to be had.
///
/// Dropping the future undoes grants that may have been made, in the background.
pub(crate) async fn try_all(driver: &Arc<Driver>, asks: &[Ask]) -> Result<Option<Vec<Arc<Held>>>> {
    driver.check_usable()?;
    let shared = &driver.shared;
    let owners: Vec<Owner> = asks
        .iter()
        .map(|ask| shared.new_owner(&ask.label))
        .collect();
    let requests: Vec<Request> = asks.iter().zip(&owners).map(request).collect();
    let mut undos: Vec<Undo> = asks
        .iter()
        .zip(&owners)
        .map(|it| undo(driver, it))
        .collect();
    undos.iter_mut().for_each(Undo::arm);
    // Read before anything is sent: the validity of what is granted counts from here.
    let sent = shared.clock.now();
    let answer = tokio::select! { biased;
        answer = shared.backend.acquire_all(&requests) => answer,
        () = shared.clock.sleep_until(sent.after(shared.settings.call_limit)) => {
            Err(shared.no_answer("the request"))
        }
    };
    let nothing_left = match &answer {
        Ok(granted) => granted.is_none(),
        Err(failure) => failure.sent() == Sent::No,
    };
    if nothing_left {
        undos.iter_mut().for_each(Undo::disarm);
    }
    let Some(grants) = answer? else {
        return Ok(None);
    };
    if grants.len() != asks.len() || !are_fresh(driver, sent, &grants) {
        let reason = "granted too late: too little of the TTL was left";
        return Err(Error::new(ErrorKind::Unavailable, reason)
            .with_hint("given back; ask for a longer TTL or look at the way to the store"));
    }
    driver.check_usable()?;
    undos.iter_mut().for_each(Undo::disarm);
    let hold = |((ask, owner), grant): ((&Ask, Owner), Grant)| {
        shared.begin_holding(identity(ask, owner, grant), sent, grant.ttl)
    };
    // All are among those held before the first is asked for: a shutdown in between ends all.
    let held: Vec<_> = asks.iter().zip(owners).zip(grants).map(hold).collect();
    let handed: Vec<_> = held.into_iter().map(|held| driver.hand_out(held)).collect();
    handed.into_iter().collect::<Result<_>>().map(Some)
}

/// Whether enough validity is left of each.
fn are_fresh(driver: &Driver, sent: Instant, grants: &[Grant]) -> bool {
    let now = driver.shared.clock.now();
    grants.iter().all(|grant| {
        let deadline = validity::deadline(sent, grant.ttl, driver.shared.settings.drift);
        deadline - now >= validity::minimum(grant.ttl)
    })
}

fn request((ask, owner): (&Ask, &Owner)) -> Request {
    let mut request = Request::new(ask.name.clone(), owner.clone(), ask.mode, ask.ttl);
    request.min_hold = ask.min_hold;
    request
}

fn undo(driver: &Arc<Driver>, (ask, owner): (&Ask, &Owner)) -> Undo {
    Undo::new(driver, &ask.name, owner, None, ask.longest())
}

fn identity(ask: &Ask, owner: Owner, grant: Grant) -> Identity {
    Identity {
        name: ask.name.clone(),
        owner,
        mode: ask.mode,
        token: grant.token,
        min_hold: ask.min_hold,
        renew: ask.renew,
    }
}
