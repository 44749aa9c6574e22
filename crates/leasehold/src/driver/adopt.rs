//! Takes over a lease that another process gave out.

use std::sync::Arc;

use leasehold_core::{
    Owner, Renewed,
    lease::{Loss, Renew},
    validity,
};

use super::{
    Driver, Shared,
    held::{Held, Identity},
    reaper::Busy,
};
use crate::{
    backend::Failure,
    error::{Error, ErrorKind, Result},
    lease::Lease,
};

/// Renews `lease` and goes on with it. Dropping the future leaves the lease as it was, or
/// lengthened once.
pub(crate) async fn adopt(driver: &Arc<Driver>, lease: &Lease, renew: Renew) -> Result<Arc<Held>> {
    driver.check_usable()?;
    let shared = &driver.shared;
    let _busy = Busy::new(&shared.reaping);
    let place = Place::of(shared, &lease.owner).ok_or_else(already_here)?;
    let sent = shared.clock.now();
    let until = sent.after(shared.settings.call_limit);
    let renewal = [lease.renewal()];
    let answer = tokio::select! { biased;
        mut answers = shared.backend.renew(&renewal) => answers.pop(),
        () = shared.clock.sleep_until(until) => None,
    };
    let answer = answer.unwrap_or_else(|| Err(shared.no_answer("the adoption")));
    let ttl = match answer? {
        Renewed::Renewed(ttl) => ttl,
        Renewed::NotOurs => return Err(lost(Loss::Taken)),
        Renewed::Missing => return Err(lost(Loss::Missing)),
    };
    // Refused before it is held: whatever was refused is not released.
    driver.check_usable()?;
    let left = validity::deadline(sent, ttl, shared.settings.drift) - shared.clock.now();
    if left < validity::minimum(ttl) {
        return Err(too_late());
    }
    let identity = Identity {
        name: lease.name.clone(),
        owner: lease.owner.clone(),
        mode: lease.mode,
        token: lease.token,
        min_hold: lease.min_hold,
        renew,
    };
    let held = shared.begin_holding(identity, sent, ttl);
    place.keep();
    driver.hand_out(held)
}

/// The owner's place among those this client holds, taken before the store is asked: two guards of
/// one owner would release each other's lock.
struct Place<'a>(Option<(&'a Shared, &'a Owner)>);

impl<'a> Place<'a> {
    fn of(shared: &'a Shared, owner: &'a Owner) -> Option<Self> {
        shared
            .registry
            .reserve(owner)
            .then_some(Self(Some((shared, owner))))
    }

    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some((shared, owner)) = self.0 {
            shared.registry.remove(owner);
        }
    }
}

fn lost(loss: Loss) -> Error {
    Error::new(ErrorKind::Lost, format!("lost: {loss}")).with_loss(loss)
}

fn already_here() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "this client has adopted the lease already",
    )
    .with_hint("a lease is adopted once; give the guard away, or make a new lease of it")
}

fn too_late() -> Error {
    Failure::unavailable("the store answered so late that little of the lease was left").into()
}
