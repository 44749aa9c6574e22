//! `leasehold run NAME -- CMD`

use leasehold::Client;

use super::under::Under;
use crate::{
    check,
    cli::{Global, Run},
    exit::{Exit, Problem},
    output::Talk,
    signals::Signals,
    want::Want,
};

/// Runs a command while holding a lock.
///
/// # Errors
///
/// The command was not run.
pub(crate) async fn run(args: &Run, global: &Global, talk: &Talk) -> Result<Exit, Problem> {
    let mut signals = Signals::install()
        .map_err(|error| Problem::usage(format!("cannot watch for signals: {error}")))?;
    let mut names = vec![args.name.clone()];
    names.extend(args.also.iter().cloned());
    let under = Under {
        names: &names,
        holding: &args.holding,
        global,
        talk,
    };
    under.check()?;
    check::at_least(args.at_least)?;
    let client = Box::pin(under.connect(&mut signals)).await?;
    let want = want(&client, args, under.label());
    Ok(under.run(&client, &want, &mut signals).await?.exit)
}

fn want(client: &Client, args: &Run, label: String) -> Want {
    let (name, ttl) = (&args.name, args.holding.ttl);
    if args.shared {
        Want::AsReader(client.rw_lock(name).with_ttl(ttl).with_label(label))
    } else if let Some(permits) = args.permits {
        let pool = client.semaphore(name, permits);
        Want::Permit(pool.with_ttl(ttl).with_label(label))
    } else if !args.also.is_empty() {
        let all = client.lock_all([name].into_iter().chain(&args.also));
        Want::Several(all.with_ttl(ttl).with_label(label))
    } else {
        let lock = client.lock(name).with_ttl(ttl).with_label(label);
        Want::Alone(match args.at_least {
            Some(span) => lock.with_min_hold(span),
            None => lock,
        })
    }
}
