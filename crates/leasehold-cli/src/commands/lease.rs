//! Leases as text: what `acquire` and `renew` print and `renew` and `release` read.

use std::io::Read;

use leasehold::{Client, Guard, Lease};
use serde_json::{Map, json};

use super::show;
use crate::{
    exit::Problem,
    output::{self, Level, Talk},
};

/// Reads a lease that was given as `text`, or on stdin for `-`.
///
/// # Errors
///
/// It is none.
pub(crate) fn read(text: &str) -> Result<Lease, Problem> {
    const LONGEST: u64 = 16 * 1024;
    if text != "-" {
        return Ok(text.parse()?);
    }
    let mut text = String::new();
    std::io::stdin()
        .take(LONGEST)
        .read_to_string(&mut text)
        .map_err(|error| Problem::usage(format!("cannot read the lease from stdin: {error}")))?;
    Ok(text.trim().parse()?)
}

/// Lets go of `guard` and prints its lease. If nobody can have read it, the lock is released:
/// nobody else could do so.
///
/// # Errors
///
/// The lock was lost, or the lease cannot be printed.
pub(crate) async fn hand_out(
    client: &Client,
    guard: Guard,
    json: bool,
    talk: &Talk,
) -> Result<(), Problem> {
    let (owner, ttl, left) = (
        guard.owner().to_string(),
        guard.ttl().get(),
        guard.remaining(),
    );
    let lease = guard.into_lease().await?;
    let text = lease.to_string();
    let printed = if json {
        let mut object = Map::new();
        object.insert("version".into(), json!(1));
        object.insert("name".into(), json!(lease.name().as_str()));
        object.insert("lease".into(), json!(text));
        object.insert("owner".into(), json!(owner));
        object.insert("fencing_token".into(), json!(lease.fencing_token().get()));
        object.insert("ttl_ms".into(), show::millis(ttl));
        object.insert("remaining_ms".into(), show::millis(left));
        object.insert("expires_at".into(), json!(show::moment(left, 1)));
        output::print(&format!("{}\n", serde_json::Value::Object(object)))
    } else {
        output::print(&format!("{text}\n"))
    };
    let reason = match printed {
        Ok(true) => return Ok(()),
        Ok(false) => "nobody reads it".into(),
        Err(error) => error.to_string(),
    };
    talk.say(
        Level::Warning,
        "releasing the lock: its lease would be lost",
    );
    client.adopt(lease).await?.release().await?;
    Err(Problem::usage(format!("cannot print the lease: {reason}")))
}
