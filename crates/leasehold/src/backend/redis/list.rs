//! Finding the locks in a keyspace that others may use too.

use std::collections::BTreeSet;

use leasehold_core::{Name, Status};
use redis::Value;

use super::{
    Redis, failure,
    keys::{Keys, Prefix, name_of, pattern},
    link::Link,
    reply::{self, array, data, string},
    script::{Call, INSPECT},
};
use crate::backend::{Failure, Page};

/// How many locks are on one page.
const PAGE: usize = 1000;
/// How many keys the server is asked to look at in one step.
const STEP: usize = 1000;
/// How many locks are inspected in one go.
const BATCH: usize = 100;

impl Redis {
    /// The page behind `after`, by name.
    pub(super) async fn page(&self, prefix: &str, after: Option<&str>) -> Result<Page, Failure> {
        let link = self.connection.link().await?;
        page(&link, self.prefix(), prefix, after).await
    }
}

/// The page behind `after`, by name. SCAN has no order and repeats itself, so a page takes a
/// whole scan; what is kept of it is one page of names.
pub(super) async fn page(
    link: &Link,
    own: &Prefix,
    prefix: &str,
    after: Option<&str>,
) -> Result<Page, Failure> {
    let names = scan(link, own, prefix, after).await?;
    let mut entries = Vec::new();
    for batch in names.chunks(BATCH) {
        entries.extend(look_at(link, own, batch).await?);
    }
    let next = names.last().filter(|_| names.len() == PAGE);
    Ok(Page::new(entries, next.map(|name| name.as_str().into())))
}

async fn scan(
    link: &Link,
    own: &Prefix,
    prefix: &str,
    after: Option<&str>,
) -> Result<Vec<Name>, Failure> {
    let pattern = pattern(&format!("{own}{prefix}"));
    let mut names = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor)
            .arg("MATCH")
            .arg(&pattern)
            .arg("COUNT")
            .arg(STEP);
        let reply = link.ask(&scan).await?;
        let Some([next, keys]) = array(&reply) else {
            return Err(failure::garbage(&format!("SCAN: {reply:?}")));
        };
        for key in array(keys).unwrap_or_default().iter().filter_map(data) {
            let name = name_of(own, key);
            let wanted = |name: &Name| after.is_none_or(|after| name.as_str() > after);
            if let Some(name) = name.filter(wanted) {
                names.insert(name);
                if names.len() > PAGE {
                    names.pop_last();
                }
            }
        }
        cursor = string(next).unwrap_or("0").to_owned();
        if cursor == "0" {
            return Ok(names.into_iter().collect());
        }
    }
}

async fn look_at(link: &Link, own: &Prefix, names: &[Name]) -> Result<Vec<Status>, Failure> {
    let call = |name| Call::new(&INSPECT, Keys::new(own, name).all());
    let calls: Vec<Call> = names.iter().map(call).collect();
    let replies = link.run_all(&calls).await?;
    let mut entries = Vec::new();
    for (name, reply) in names.iter().zip(&replies) {
        if let Value::ServerError(error) = reply {
            return Err(failure::from_reply(error));
        }
        let (status, looks_like_a_lock) = reply::status(reply, name.as_str())?;
        // Under a prefix of its own everything is meant as a lock, also what is none.
        let shown = looks_like_a_lock || !own.as_str().is_empty();
        let gone = status.is_free() && status.waiters.is_empty();
        if shown && !gone {
            entries.push(status);
        }
    }
    Ok(entries)
}
