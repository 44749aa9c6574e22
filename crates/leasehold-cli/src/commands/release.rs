//! `leasehold release LEASE` and `leasehold release --force NAME`

use leasehold::{Client, Holder};
use serde_json::{Map, Value};

use super::{lease, show};
use crate::{
    check,
    cli::{Global, Release},
    exit::{Exit, Problem},
    output::{self, Level, Talk, escape},
    store::Store,
};

/// Releases a lock.
///
/// # Errors
///
/// It was not held any more, or the store does not answer.
pub(crate) async fn run(args: &Release, global: &Global, talk: &Talk) -> Result<Exit, Problem> {
    let given = args.lease.as_deref().map(lease::read).transpose()?;
    args.force.as_deref().map_or(Ok(()), check::name)?;
    let client = Store::find(global, talk)?.connect().await?;
    if let Some(name) = &args.force {
        return force(&client, name, args, global.json, talk).await;
    }
    if let Some(given) = given {
        client.adopt(given).await?.release().await?;
    }
    if global.json {
        output::json(Map::from_iter([("released".into(), true.into())]))?;
    }
    Ok(Exit::YES)
}

/// Ends what holds `name`, and says whom that hit.
async fn force(
    client: &Client,
    name: &str,
    args: &Release,
    json: bool,
    talk: &Talk,
) -> Result<Exit, Problem> {
    let status = client.inspect(name).await?;
    let victims = choose(&status.holders, name, args)?;
    let mut hit = Vec::new();
    for victim in victims {
        if client.force_release(name, &victim.value).await? {
            let who = show::describe(victim);
            talk.say(Level::Note, format!("lock {:?}: ended {who}", escape(name)));
            hit.push(Value::from(victim.value.as_str()));
        }
    }
    let exit = if hit.is_empty() { Exit::NO } else { Exit::YES };
    if exit == Exit::NO {
        talk.say(Level::Note, format!("lock {:?} is not held", escape(name)));
    }
    if json {
        output::json(Map::from_iter([
            ("released".into(), (exit == Exit::YES).into()),
            ("owners".into(), hit.into()),
        ]))?;
    }
    Ok(exit)
}

/// Whom it is to hit.
fn choose<'a>(
    holders: &'a [Holder],
    name: &str,
    args: &Release,
) -> Result<Vec<&'a Holder>, Problem> {
    if let Some(owner) = &args.owner {
        return Ok(holders
            .iter()
            .filter(|holder| holder.value == *owner)
            .collect());
    }
    if holders.len() > 1 && !args.all {
        let message = format!("lock {:?} has {} holders", escape(name), holders.len());
        let hint = "name one with --owner, as leasehold status shows it, or say --all";
        return Err(Problem::usage(message).hint(hint));
    }
    Ok(holders.iter().collect())
}
