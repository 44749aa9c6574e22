//! Taking several locks in one step.

use std::collections::BTreeSet;

use leasehold_core::{Grant, Request, Ttl};

use super::{
    Redis, form, reply,
    script::{ACQUIRE_ALL, Call},
};
use crate::{
    backend::{Failure, Sent},
    error::ErrorKind,
};

/// How many locks one step takes at most: about two milliseconds of the server's time.
const MOST: usize = 256;

impl Redis {
    /// All of `requests` or none.
    pub(super) async fn take_all(
        &self,
        requests: &[Request],
    ) -> Result<Option<Vec<Grant>>, Failure> {
        check(requests)?;
        let keys: Vec<_> = requests.iter().map(|it| self.keys(&it.name)).collect();
        let keys = keys.iter().flat_map(|keys| keys.for_acquire());
        let call = Call::new(&ACQUIRE_ALL, keys);
        let call = requests.iter().fold(call, with_demand);
        let link = self.connection.link().await?;
        let tokens = reply::tokens(&link.run(&call).await?, requests.len())?;
        if let Some(first) = requests.first().filter(|_| tokens.is_some()) {
            self.listen_behind(link, &first.owner.client());
        }
        let grant = |(token, request): (_, &Request)| Grant::new(token, first_ttl(request));
        Ok(tokens.map(|tokens| tokens.into_iter().zip(requests).map(grant).collect()))
    }
}

/// Owner, mode, limit, weight, TTL and minimum hold, in the order in which the scripts take them.
pub(super) fn with_demand(call: Call, request: &Request) -> Call {
    let mode = request.mode;
    let (letter, limit) = if mode.is_shared() {
        ("s", mode.limit())
    } else {
        ("x", 0)
    };
    call.arg(request.owner.as_str())
        .arg(letter)
        .number(limit.into())
        .number(mode.weight().into())
        .number(first_ttl(request).as_millis())
        .number(form::millis(request.min_hold))
}

/// The TTL at the grant: not less than the minimum hold, should the holder die at once.
pub(super) fn first_ttl(request: &Request) -> Ttl {
    let hold = request.min_hold.map_or(request.ttl, Ttl::clamped);
    request.ttl.max(hold)
}

/// Whether one step can take these.
pub(super) fn check(requests: &[Request]) -> Result<(), Failure> {
    let names: BTreeSet<_> = requests.iter().map(|request| &request.name).collect();
    let complaint = if requests.len() > MOST {
        format!("{} locks: one step takes at most {MOST}", requests.len())
    } else if names.len() < requests.len() {
        "one step takes each lock once".to_owned()
    } else {
        return Ok(());
    };
    Err(Failure::new(ErrorKind::Invalid, Sent::No, complaint))
}
