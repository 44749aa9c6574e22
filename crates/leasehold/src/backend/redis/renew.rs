//! Renewing thousands of leases in a few commands.

use leasehold_core::{Renewal, Renewed, Ttl};
use redis::Value;

use super::{
    Redis, failure, form,
    keys::Keys,
    reply,
    script::{Call, RENEW, RENEW_SHARED},
};
use crate::backend::Failure;

/// How many leases one command renews: half a millisecond of the server's time.
const BATCH: usize = 256;

impl Redis {
    /// One answer for each renewal, in their order; all commands are sent in one go.
    pub(super) async fn renew_in_batches(
        &self,
        renewals: &[Renewal],
    ) -> Vec<Result<Renewed, Failure>> {
        let (shared, exclusive): (Vec<usize>, Vec<usize>) =
            (0..renewals.len()).partition(|&index| renewals[index].mode.is_shared());
        let batches: Vec<&[usize]> = exclusive
            .chunks(BATCH)
            .chain(shared.chunks(BATCH))
            .collect();
        let call = |batch: &&[usize]| {
            let items: Vec<&Renewal> = batch.iter().map(|&index| &renewals[index]).collect();
            self.renew_call(&items)
        };
        let calls: Vec<Call> = batches.iter().map(call).collect();
        let replies = match self.connection.link().await {
            Ok(link) => link.run_all(&calls).await,
            Err(failure) => Err(failure),
        };
        let replies = match replies {
            Ok(replies) => replies,
            Err(failure) => return renewals.iter().map(|_| Err(failure.clone())).collect(),
        };
        let mut answers: Vec<Result<Renewed, Failure>> = renewals
            .iter()
            .map(|_| Err(Failure::unavailable("not asked")))
            .collect();
        for (batch, reply) in batches.iter().zip(&replies) {
            for (&index, answer) in batch.iter().zip(read(batch, renewals, reply)) {
                answers[index] = answer;
            }
        }
        answers
    }

    /// The call for a batch that is exclusive or shared throughout.
    fn renew_call(&self, batch: &[&Renewal]) -> Call {
        let keys: Vec<Keys> = batch.iter().map(|item| self.keys(&item.name)).collect();
        let witness = keys.first().map(|keys| keys.waiters.as_str());
        if batch.first().is_some_and(|item| item.mode.is_shared()) {
            let names = keys
                .iter()
                .flat_map(|keys| [keys.lock.as_str(), keys.held.as_str()]);
            let call = Call::new(&RENEW_SHARED, names.chain(witness));
            return batch.iter().fold(call, |call, item| {
                call.arg(form::shared(item.mode, item.token))
                    .arg(item.owner.as_str())
                    .number(item.mode.weight().into())
                    .number(item.ttl.as_millis())
            });
        }
        let names = keys.iter().map(|keys| keys.lock.as_str());
        let call = Call::new(&RENEW, names.chain(witness));
        batch.iter().fold(call, |call, item| {
            call.arg(form::exclusive(&item.owner, item.token))
                .number(item.ttl.as_millis())
        })
    }
}

fn read(batch: &[usize], renewals: &[Renewal], reply: &Value) -> Vec<Result<Renewed, Failure>> {
    let ttls: Vec<Ttl> = batch.iter().map(|&index| renewals[index].ttl).collect();
    let answers = match reply {
        Value::ServerError(error) => Err(failure::from_reply(error)),
        reply => reply::renewed(reply, &ttls),
    };
    match answers {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(failure) => ttls.iter().map(|_| Err(failure.clone())).collect(),
    }
}
