//! What a holder asks of the store between grant and release.

use std::sync::Arc;

use leasehold_core::{Instant, Renewed, Ttl, lease::State};

use super::{
    Driver,
    held::Held,
    release::{given_up, lost},
};
use crate::{
    backend::Failure,
    error::{Error, Result},
};

/// Makes sure `held` is held, by the holder's own clock.
pub(crate) fn check(driver: &Driver, held: &Held) -> Result<()> {
    if driver.shared.is_forked() {
        return driver.check_usable();
    }
    match held.observe(driver.shared.clock.now()) {
        State::Lost(loss) => Err(lost(held, loss)),
        State::Released => Err(given_up(held)),
        _ => Ok(()),
    }
}

/// Lengthens the lease once, beside the planned renewals. Answers the new deadline.
pub(crate) async fn extend(driver: &Driver, held: &Arc<Held>, ttl: Ttl) -> Result<Instant> {
    let renewal = [held.renewal(ttl)];
    held.asks(ttl);
    let call = async {
        let answer = driver.shared.backend.renew(&renewal).await.pop();
        answer.unwrap_or_else(|| Err(driver.shared.no_answer("the extension")))
    };
    ask(driver, held, "the extension", call).await?;
    Ok(held.deadline())
}

/// Publishes `note` about the holder, now and with every renewal.
pub(crate) async fn publish(driver: &Driver, held: &Arc<Held>, note: String) -> Result<()> {
    held.set_note(Some(note.clone()));
    let renewal = held.renewal(held.ttl());
    let call = driver.shared.backend.annotate(&renewal, Some(&note));
    ask(driver, held, "the note", call).await
}

/// One call about a lease that is held; its answer counts as a renewal's, from before it was sent.
async fn ask(
    driver: &Driver,
    held: &Arc<Held>,
    what: &str,
    call: impl Future<Output = Result<Renewed, Failure>>,
) -> Result<()> {
    check(driver, held)?;
    let shared = &driver.shared;
    let sent = shared.clock.now();
    let until = sent.after(shared.settings.call_limit).min(held.deadline());
    let answer = tokio::select! { biased;
        answer = call => answer,
        () = shared.clock.sleep_until(until) => Err(shared.no_answer(what)),
    };
    match answer {
        Ok(answer) => {
            held.extended(shared.clock.now(), sent, answer);
            shared.replan(held);
            check(driver, held)
        }
        Err(failure) => {
            check(driver, held)?;
            Err(Error::from(failure).with_lock_name(held.name.as_str()))
        }
    }
}
