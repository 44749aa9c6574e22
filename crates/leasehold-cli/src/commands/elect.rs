//! `leasehold elect NAME -- CMD`

use std::time::Duration;

use super::under::Under;
use crate::{
    check,
    cli::{Elect, Global},
    exit::{Exit, Problem},
    output::{Level, Talk, escape},
    signals::Signals,
    time::CLOCK,
    wait::{self, Ended},
    want::Want,
};

/// How long not to stand after the lead ended: a command that fails at once must not be started
/// over and over, and others get their turn.
const PACE: Duration = Duration::from_secs(1);

/// Runs a command while leading.
///
/// # Errors
///
/// The command was not run.
pub(crate) async fn run(args: &Elect, global: &Global, talk: &Talk) -> Result<Exit, Problem> {
    let mut signals = Signals::install()
        .map_err(|error| Problem::usage(format!("cannot watch for signals: {error}")))?;
    let names = [args.name.clone()];
    let under = Under {
        names: &names,
        holding: &args.holding,
        global,
        talk,
    };
    under.check()?;
    check::value(&args.value)?;
    let client = Box::pin(under.connect(&mut signals)).await?;
    let election = client.election(&args.name).with_ttl(args.holding.ttl);
    let want = Want::Lead(election.with_label(under.label()), args.value.clone());
    loop {
        let outcome = under.run(&client, &want, &mut signals).await?;
        // A command that cannot be executed will not be the next time either.
        let in_vain = [Exit::NOT_EXECUTABLE, Exit::NOT_FOUND].contains(&outcome.exit);
        if !args.again || outcome.told_to_end || in_vain {
            return Ok(outcome.exit);
        }
        let exit = outcome.exit.get();
        let name = escape(&args.name);
        let text = format!("the command ended with {exit}: standing for {name:?} again");
        talk.say(Level::Note, text);
        let clock = CLOCK;
        let pause = clock.sleep_until(clock.now().after(PACE));
        if let Ended::Signal(signal) = wait::unless_signalled(&mut signals, pause).await {
            return Err(wait::stopped(signal));
        }
    }
}
