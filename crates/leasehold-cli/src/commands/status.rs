//! `leasehold status NAME`

use super::show;
use crate::{
    check,
    cli::{Global, Status},
    exit::{Exit, Problem},
    output::{self, Talk},
    store::Store,
};

/// Shows who holds a lock and who waits for it.
///
/// # Errors
///
/// It cannot be found out.
pub(crate) async fn run(args: &Status, global: &Global, talk: &Talk) -> Result<Exit, Problem> {
    check::name(&args.name)?;
    let client = Store::find(global, talk)?.connect().await?;
    let status = client.inspect(&args.name).await?;
    if global.json {
        output::json(show::object(&status))?;
    } else {
        output::data(&show::text(&status))?;
    }
    Ok(if status.is_free() {
        Exit::NO
    } else {
        Exit::YES
    })
}
