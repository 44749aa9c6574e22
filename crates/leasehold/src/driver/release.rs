//! Giving a lock back.

use std::{sync::Arc, time::Duration};

use leasehold_core::{
    Mode, Name, Owner, Released, Renewed,
    lease::{Loss, Renew, State},
};

use super::{Driver, Shared, held::Held, reaper::Busy};
use crate::{
    backend::Failure,
    error::{Error, ErrorKind, Result},
};

/// Something that has to be released unless it comes to a good end: dropped while armed, it hands
/// the release to the reaper.
#[derive(Debug)]
pub(crate) struct Undo {
    driver: Arc<Driver>,
    name: Name,
    owner: Owner,
    min_hold: Option<Duration>,
    ttl: Duration,
    /// There while armed: a shutdown waits for what is to be undone.
    armed: Option<Busy>,
}

impl Undo {
    pub(super) fn new(
        driver: &Arc<Driver>,
        name: &Name,
        owner: &Owner,
        min_hold: Option<Duration>,
        ttl: Duration,
    ) -> Self {
        let driver = Arc::clone(driver);
        Self {
            driver,
            name: name.clone(),
            owner: owner.clone(),
            min_hold,
            ttl,
            armed: None,
        }
    }

    pub(super) fn arm(&mut self) {
        let progress = &self.driver.shared.reaping;
        self.armed.get_or_insert_with(|| Busy::new(progress));
    }

    pub(super) fn disarm(&mut self) {
        self.armed = None;
    }

    /// Releases now, for `limit` at most; what is not answered by then goes on in the background.
    pub(super) async fn release(&mut self, limit: Duration) -> Result<Released, Failure> {
        self.arm();
        let shared = &self.driver.shared;
        let until = shared.clock.now().after(limit);
        let answer = tokio::select! { biased;
            answer = shared.backend.release(&self.name, &self.owner, self.min_hold) => answer,
            () = shared.clock.sleep_until(until) => Err(shared.no_answer("the release")),
        };
        if answer.is_ok() {
            self.disarm();
        }
        answer
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if self.armed.is_some() {
            self.driver
                .reap(&self.name, &self.owner, self.min_hold, self.ttl);
        }
    }
}

/// Gives up `held` and tells the store.
pub(crate) async fn release(driver: &Arc<Driver>, held: &Held) -> Result<()> {
    let mut undo = give_up(driver, held)?;
    let answer = undo.release(driver.shared.settings.call_limit).await;
    match answer {
        Ok(Released::Released | Released::Kept) => Ok(()),
        Ok(Released::NotOurs) => Err(lost(held, Loss::Missing)),
        Err(failure) => Err(Error::from(failure)
            .with_lock_name(held.name.as_str())
            .with_hint("the release is tried again in the background until the TTL has passed")),
    }
}

/// Gives up `held` and leaves telling the store to the reaper.
pub(crate) fn release_later(driver: &Arc<Driver>, held: &Held) {
    if !driver.shared.is_forked() {
        drop(give_up(driver, held));
    }
}

/// Gives up `held` for this process and binds its entry to nothing but its TTL.
pub(crate) async fn detach(driver: &Arc<Driver>, held: &Held) -> Result<()> {
    let ttl = held.ttl();
    let shared = &driver.shared;
    // First: a late push that finds nobody would be answered by a release.
    shared.registry.hand_over(&held.owner);
    let mut undo = give_up(driver, held)?;
    let until = shared.clock.now().after(shared.settings.call_limit);
    let renewal = held.renewal(ttl);
    let answer = tokio::select! { biased;
        answer = shared.backend.detach(&renewal) => answer,
        () = shared.clock.sleep_until(until) => Err(shared.no_answer("the hand-over")),
    };
    match answer {
        Ok(Renewed::Renewed(_)) => {
            undo.disarm();
            Ok(())
        }
        Ok(Renewed::NotOurs) => Err(lost(held, Loss::Taken)),
        Ok(Renewed::Missing) => Err(lost(held, Loss::Missing)),
        Err(failure) => Err(Error::from(failure).with_lock_name(held.name.as_str())),
    }
}

/// Goes on as a reader under the same fencing token. The exclusive lease ends here before anything
/// is sent, so that a renewal of it that is still under way can say nothing about the reader's.
pub(crate) async fn downgrade(driver: &Arc<Driver>, held: &Held) -> Result<Arc<Held>> {
    let mut identity = held.identity(Mode::Read);
    let ttl = held.ttl();
    let cap = held.cap();
    let shared = &driver.shared;
    // First: a late push that finds nobody would be answered by a release.
    shared.registry.hand_over(&held.owner);
    let mut undo = give_up(driver, held)?;
    let sent = shared.clock.now();
    if let Renew::AtMost(_) = identity.renew {
        identity.renew = Renew::AtMost(cap - sent);
    }
    let until = sent.after(shared.settings.call_limit).min(held.deadline());
    let renewal = held.renewal(ttl);
    let answer = tokio::select! { biased;
        answer = shared.backend.downgrade(&renewal) => answer,
        () = shared.clock.sleep_until(until) => Err(shared.no_answer("the downgrade")),
    };
    match answer {
        Ok(Renewed::Renewed(_)) if shared.clock.now() >= held.deadline() => {
            Err(lost(held, Loss::Expired))
        }
        Ok(Renewed::Renewed(ttl)) => {
            let reader = shared.begin_holding(identity, sent, ttl);
            reader.inherit(held);
            undo.disarm();
            driver.hand_out(reader)
        }
        Ok(Renewed::NotOurs) => Err(lost(held, Loss::Taken)),
        Ok(Renewed::Missing) => Err(lost(held, Loss::Missing)),
        Err(failure) => Err(Error::from(failure).with_lock_name(held.name.as_str())),
    }
}

/// Ends `held` for its holder. Renewal stops here, before any release starts. A lease that was
/// lost is released all the same, so that nothing of its owner stays in the store.
fn give_up(driver: &Arc<Driver>, held: &Held) -> Result<Undo> {
    let shared = &driver.shared;
    if shared.is_forked() {
        return Err(driver
            .check_usable()
            .err()
            .unwrap_or_else(|| lost(held, Loss::Expired)));
    }
    let before = held.release(shared.clock.now());
    shared.forget(held);
    let ttl = held.longest();
    let mut undo = Undo::new(driver, &held.name, &held.owner, held.min_hold, ttl);
    match before {
        State::Released => Err(given_up(held)),
        State::Lost(loss) => {
            undo.arm();
            Err(lost(held, loss))
        }
        _ => {
            undo.arm();
            Ok(undo)
        }
    }
}

/// The error of a holder that may no longer claim its lock.
pub(crate) fn lost(held: &Held, loss: Loss) -> Error {
    Error::new(ErrorKind::Lost, format!("lost: {loss}"))
        .with_lock_name(held.name.as_str())
        .with_loss(loss)
}

/// The error of a holder that gave its lock up.
pub(crate) fn given_up(held: &Held) -> Error {
    Error::new(ErrorKind::Lost, "already released").with_lock_name(held.name.as_str())
}

impl Shared {
    /// The failure of a request that was sent and not answered within the call's limit.
    pub(crate) fn no_answer(&self, what: &str) -> Failure {
        // Without the limit: a renewal's, and that of a call near the end of a wait, is shorter.
        Failure::no_answer(format!("no answer to {what} in time"))
    }
}
