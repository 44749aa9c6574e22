//! Ends entries of this process whose time is up.
//!
//! Entries share leases, which are kept alive for as long as anybody needs them. So the process
//! itself ends the entry of a holder that is no longer renewed and of a waiter whose patience is
//! over. If it dies, the store ends the lease with all of them.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    hub::Hub,
    own::{Slot, Stage},
    proto::TxnRequest,
    store::{created_at, delete},
};

/// How long to wait before what was not answered is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs until the handle is gone.
pub(super) async fn run(hub: Weak<Hub>) {
    while let Some(hub) = hub.upgrade() {
        match hub.own.due(hub.clock.now()) {
            Ok(slot) => look_at(&hub, slot),
            Err(when) => {
                let earlier = Arc::clone(&hub.own.earlier);
                let clock = hub.clock.clone();
                drop(hub);
                match when {
                    None => earlier.notified().await,
                    Some(when) => tokio::select! { biased;
                        () = earlier.notified() => {}
                        () = clock.sleep_until(when) => {}
                    },
                }
            }
        }
    }
}

fn look_at(hub: &Arc<Hub>, slot: Arc<Slot>) {
    let mut state = slot.state();
    let Some(until) = state.until else {
        return;
    };
    if until <= hub.clock.now() {
        drop(state);
        tokio::spawn(end(Arc::clone(hub), slot));
        return;
    }
    if let (Stage::Held(_), Some(place), None) = (&state.stage, &state.place, &state.own_watch) {
        let id = hub.watch(&slot, &slot.key, place.created + 1, false);
        state.own_watch = Some(id);
    }
    drop(state);
    hub.own.look_at(&slot, until);
}

async fn end(hub: Arc<Hub>, slot: Arc<Slot>) {
    let Some(turn) = hub.own.turn_of(slot).await else {
        return;
    };
    let slot = &turn.slot;
    let now = hub.clock.now();
    let state = {
        let mut state = slot.state();
        // In one step with the look at the clock: a renewal under way comes before or is refused.
        state.is_ending |= state.place.is_some() && state.until.is_some_and(|until| until <= now);
        state.clone()
    };
    let (Some(until), Some(place)) = (state.until, state.place) else {
        return;
    };
    if until > now {
        hub.own.look_at(slot, until);
        return;
    }
    let txn = TxnRequest {
        compare: vec![created_at(&slot.key, place.created)],
        success: vec![delete(&slot.key)],
        failure: Vec::new(),
    };
    let ended = hub.store.txn(&txn).await.is_ok();
    if !ended && place.lease.until().is_some_and(|until| until > now) {
        hub.own.look_at(slot, now.after(PAUSE));
    } else if state.uncertain {
        let mut state = slot.state();
        state.stage = Stage::Asking;
        (state.place, state.until) = (None, None);
    } else {
        hub.close(slot);
    }
}
