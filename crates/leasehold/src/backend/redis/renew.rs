//! Renewing thousands of leases in a few commands.

use leasehold_core::{Renewal, Renewed, Ttl};
use redis::Value;

use super::{
    Redis, failure, form,
    keys::Keys,
    reply,
    script::{ANNOTATE, Call, DOWNGRADE, RENEW, RENEW_SHARED},
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

    /// Turns an exclusive lease into a reader's.
    pub(super) async fn become_reader(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        let keys = self.keys(&renewal.name);
        let call = with_lease(Call::new(&DOWNGRADE, keys.for_acquire()), renewal);
        self.run_for_lease(&call, renewal).await
    }

    /// Publishes what a holder has to say, or takes it back.
    pub(super) async fn set_note(
        &self,
        renewal: &Renewal,
        note: Option<&str>,
    ) -> Result<Renewed, Failure> {
        let call = Call::new(&ANNOTATE, self.keys(&renewal.name).all());
        let call = note
            .into_iter()
            .fold(with_lease(call, renewal), |call, note| call.arg(note));
        self.run_for_lease(&call, renewal).await
    }

    async fn run_for_lease(&self, call: &Call, renewal: &Renewal) -> Result<Renewed, Failure> {
        let reply = self.connection.link().await?.run(call).await?;
        let answers = reply::renewed(&reply, &[renewal.ttl])?;
        answers.first().copied().ok_or_else(|| {
            let script = call.script.name();
            failure::garbage(&format!("{script}: {reply:?}"))
        })
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

/// What lease.lua takes.
fn with_lease(call: Call, renewal: &Renewal) -> Call {
    call.arg(renewal.owner.as_str())
        .number(renewal.token.get())
        .number(renewal.mode.weight().into())
        .number(renewal.ttl.as_millis())
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
