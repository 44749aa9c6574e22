//! Rounds of renewal over all nodes, many leases at a time.

use std::sync::Arc;

use leasehold_core::{
    Renewal, Renewed,
    quorum::{Extension, Reply, Verdict},
};
use tokio::sync::{mpsc, oneshot};

use super::roster::Roster;
use crate::backend::Failure;

/// The answers of one node to all leases of a round.
type Answers = Vec<Result<Renewed, Failure>>;

/// Renews on every node. The answers are here as soon as every lease has its verdict; what slow
/// nodes say later is still used to replant.
pub(super) async fn run(
    roster: &Arc<Roster>,
    renewals: &[Renewal],
) -> Vec<Result<Renewed, Failure>> {
    let (sender, receiver) = oneshot::channel();
    let round = Round {
        roster: Arc::clone(roster),
        renewals: renewals.to_vec(),
        extensions: renewals
            .iter()
            .map(|_| Extension::new(roster.size))
            .collect(),
        verdicts: vec![None; renewals.len()],
        causes: vec![None; roster.members.len()],
    };
    tokio::spawn(round.run(sender));
    match receiver.await {
        Ok(answers) => answers,
        Err(_) => renewals
            .iter()
            .map(|_| Err(Failure::no_answer("the runtime is shutting down")))
            .collect(),
    }
}

struct Round {
    roster: Arc<Roster>,
    renewals: Vec<Renewal>,
    extensions: Vec<Extension>,
    verdicts: Vec<Option<Verdict>>,
    /// Why a node did not answer.
    causes: Vec<Option<String>>,
}

impl Round {
    async fn run(mut self, answer: oneshot::Sender<Vec<Result<Renewed, Failure>>>) {
        let mut answer = Some(answer);
        let mut answers = self.ask();
        while let Some((at, replies)) = answers.recv().await {
            for (index, reply) in replies.into_iter().enumerate() {
                self.take_in(at, index, reply);
            }
            let decided = self.verdicts.iter().all(Option::is_some);
            if let Some(answer) = answer.take_if(|_| decided) {
                let _ = answer.send(self.answers());
            }
        }
        if let Some(answer) = answer {
            let _ = answer.send(self.answers());
        }
    }

    /// Sends the round to every node.
    fn ask(&self) -> mpsc::UnboundedReceiver<(usize, Answers)> {
        let (sender, answers) = mpsc::unbounded_channel();
        let renewals: Arc<[Renewal]> = self.renewals.clone().into();
        for at in 0..self.roster.members.len() {
            let (roster, renewals) = (Arc::clone(&self.roster), Arc::clone(&renewals));
            let sender = sender.clone();
            tokio::spawn(async move {
                let answers = match roster.session(at).await {
                    Ok(session) => session.extend(&renewals).await,
                    Err(failure) => renewals.iter().map(|_| Err(failure.clone())).collect(),
                };
                let _ = sender.send((at, answers));
            });
        }
        answers
    }

    fn take_in(&mut self, at: usize, index: usize, reply: Result<Renewed, Failure>) {
        let reply = match reply {
            Ok(Renewed::Renewed(_)) => Reply::Kept,
            Ok(Renewed::NotOurs) => Reply::NotOurs,
            Ok(Renewed::Missing) => Reply::Missing,
            Err(failure) => {
                self.causes[at] = Some(failure.message().to_owned());
                Reply::Failed
            }
        };
        let extension = &mut self.extensions[index];
        if let Some(verdict) = extension.answered(at, reply) {
            self.verdicts[index] = Some(verdict);
        }
        if self.verdicts[index] == Some(Verdict::Kept) {
            for at in extension.replant(self.roster.trusted()).iter() {
                let claim = self.renewals[index].clone();
                tokio::spawn(replant(Arc::clone(&self.roster), at, claim));
            }
        }
    }

    fn answers(&self) -> Vec<Result<Renewed, Failure>> {
        let verdicts = self.renewals.iter().zip(&self.verdicts);
        let answer = |(renewal, verdict): (&Renewal, &Option<Verdict>)| match verdict {
            Some(Verdict::Kept) => Ok(Renewed::Renewed(renewal.ttl)),
            Some(Verdict::Lost(answer)) => Ok(*answer),
            Some(Verdict::Missed) | None => Err(self.failure()),
        };
        verdicts.map(answer).collect()
    }

    fn failure(&self) -> Failure {
        let members = self.roster.members.iter().zip(&self.causes);
        let causes: Vec<String> = members
            .filter_map(|(member, cause)| {
                let cause = cause.as_ref()?;
                Some(format!("{}: {cause}", member.address))
            })
            .collect();
        let message = format!("no majority of the nodes renewed; {}", causes.join("; "));
        Failure::no_answer(message)
    }
}

/// Gives the lease again to a node that lost it. Too late it only delays others by one TTL.
async fn replant(roster: Arc<Roster>, at: usize, claim: Renewal) {
    let address = &roster.members[at].address;
    let planted = match roster.voter(at).await {
        Ok(session) => session.replant(&claim).await,
        Err(failure) => Err(failure),
    };
    let name = &claim.name;
    match planted {
        Ok(true) => tracing::info!(%name, node = address, "gave the lease again to a node"),
        Ok(false) => tracing::warn!(%name, node = address, "another holds on a node"),
        Err(failure) => tracing::debug!(%name, node = address, %failure, "not replanted"),
    }
}
