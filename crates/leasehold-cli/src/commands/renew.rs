//! `leasehold renew LEASE`

use super::lease;
use crate::{
    check,
    cli::{Global, Renew},
    exit::{Exit, Problem},
    output::Talk,
    store::Store,
};

/// Renews a lease and prints it as it is now.
///
/// # Errors
///
/// It was lost, or the store does not answer.
pub(crate) async fn run(args: &Renew, global: &Global, talk: &Talk) -> Result<Exit, Problem> {
    let given = lease::read(&args.lease)?;
    args.ttl.map_or(Ok(()), check::ttl)?;
    let client = Store::find(global, talk)?.connect().await?;
    let guard = client.adopt(given).await?;
    if let Some(ttl) = args.ttl {
        guard.extend(ttl).await?;
    }
    lease::hand_out(&client, guard, global.json, talk).await?;
    Ok(Exit::YES)
}
