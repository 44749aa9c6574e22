//! `leasehold acquire NAME --ttl DUR`

use super::lease;
use crate::{
    check,
    cli::{Acquire, Global},
    exit::{Exit, Problem},
    output::Talk,
    signals::Signals,
    store::Store,
    wait::{self, Ended},
    want,
};

/// Acquires a lock and prints its lease.
///
/// # Errors
///
/// It was not acquired.
pub(crate) async fn run(args: &Acquire, global: &Global, talk: &Talk) -> Result<Exit, Problem> {
    let mut signals = Signals::install()
        .map_err(|error| Problem::usage(format!("cannot watch for signals: {error}")))?;
    check::name(&args.name)?;
    check::ttl(args.ttl)?;
    check::at_least(args.at_least)?;
    check::label(args.label.as_deref())?;
    let store = Store::find(global, talk)?;
    store.note(talk);
    let client = match wait::unless_signalled(&mut signals, store.connect()).await {
        Ended::Done(client) => client?,
        Ended::Signal(signal) => return Err(wait::stopped(signal)),
    };
    let mut lock = client.lock(&args.name).with_ttl(args.ttl);
    if let Some(label) = &args.label {
        lock = lock.with_label(label);
    }
    if let Some(span) = args.at_least {
        lock = lock.with_min_hold(span);
    }
    let (names, taking) = ([args.name.clone()], want::take(&lock, args.waiting));
    let guard = wait::acquire(&client, &names, taking, args.waiting, &mut signals, talk).await?;
    lease::hand_out(&client, guard, global.json, talk).await?;
    Ok(Exit::YES)
}
