//! Rounds of renewal over all nodes, many leases at a time.

use std::sync::Arc;

use leasehold_core::{
    Renewal, Renewed,
    quorum::{Extension, Reply, Verdict},
};
use tokio::sync::{mpsc, oneshot};

use super::{lane::Parting, leases::Leases, roster::Roster};
use crate::backend::{
    Failure,
    node::{Claim, Session},
};

/// The answers of one node to all leases of a round.
type Answers = Vec<Result<Renewed, Failure>>;

/// Renews on every node. The answers are here as soon as every lease has its verdict; what slow
/// nodes say later is still used to replant.
pub(super) async fn run(
    roster: &Arc<Roster>,
    leases: &Arc<Leases>,
    claims: Vec<Claim>,
    what: What,
) -> Vec<Result<Renewed, Failure>> {
    let (sender, receiver) = oneshot::channel();
    let count = claims.len();
    let round = Round {
        roster: Arc::clone(roster),
        leases: Arc::clone(leases),
        what,
        extensions: vec![Extension::new(roster.size); count],
        claims: claims.into(),
        verdicts: vec![None; count],
        causes: vec![None; roster.members.len()],
    };
    tokio::spawn(round.run(sender));
    match receiver.await {
        Ok(answers) => answers,
        Err(_) => vec![Err(Failure::no_answer("the runtime is shutting down")); count],
    }
}

/// What a round does with the leases, besides lengthening them.
#[derive(Clone, Debug)]
pub(super) enum What {
    Extend,
    /// Turns an exclusive one into a reader's, and tells those that wait.
    Downgrade,
    /// Publishes a note about each of them, or takes it back.
    Note(Option<Arc<str>>),
}

struct Round {
    roster: Arc<Roster>,
    leases: Arc<Leases>,
    what: What,
    claims: Arc<[Claim]>,
    extensions: Vec<Extension>,
    verdicts: Vec<Option<Verdict>>,
    /// Why a node did not answer.
    causes: Vec<Option<String>>,
}

impl What {
    async fn ask(&self, session: &dyn Session, claims: &[Claim]) -> Answers {
        match self {
            Self::Extend => session.extend(claims).await,
            Self::Downgrade => {
                let answers = session.extend(claims).await;
                for (claim, answer) in claims.iter().zip(&answers) {
                    if let Ok(Renewed::Renewed(_)) = answer {
                        // A hint: readers that miss it ask again by themselves.
                        let _ = session.tell(&claim.renewal.name).await;
                    }
                }
                answers
            }
            Self::Note(note) => {
                let mut answers = Vec::new();
                for claim in claims {
                    answers.push(session.annotate(claim, note.as_deref()).await);
                }
                answers
            }
        }
    }
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
        for at in 0..self.roster.members.len() {
            let (roster, claims) = (Arc::clone(&self.roster), Arc::clone(&self.claims));
            let (sender, what) = (sender.clone(), self.what.clone());
            tokio::spawn(async move {
                let answers = match roster.session(at).await {
                    Ok(session) => what.ask(&*session, &claims).await,
                    Err(failure) => vec![Err(failure); claims.len()],
                };
                let _ = sender.send((at, answers));
            });
        }
        answers
    }

    fn take_in(&mut self, at: usize, index: usize, reply: Result<Renewed, Failure>) {
        let shares = self.claims[index].renewal.mode.is_shared();
        let reply = match reply {
            Ok(Renewed::Renewed(_)) => Reply::Kept,
            // Whether it may share with those that hold is the node's to say.
            Ok(Renewed::NotOurs) if shares => Reply::Beside,
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
                let replant = Replant {
                    roster: Arc::clone(&self.roster),
                    leases: Arc::clone(&self.leases),
                    at,
                    claim: self.claims[index].clone(),
                };
                tokio::spawn(replant.run());
            }
        }
    }

    fn answers(&self) -> Vec<Result<Renewed, Failure>> {
        let verdicts = self.claims.iter().zip(&self.verdicts);
        let answer = |(claim, verdict): (&Claim, &Option<Verdict>)| match verdict {
            Some(Verdict::Kept) => Ok(Renewed::Renewed(claim.renewal.ttl)),
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
struct Replant {
    roster: Arc<Roster>,
    leases: Arc<Leases>,
    at: usize,
    claim: Claim,
}

impl Replant {
    async fn run(self) {
        let address = &self.roster.members[self.at].address;
        let name = &self.claim.renewal.name;
        match self.plant().await {
            Ok(true) => tracing::info!(%name, node = address, "gave the lease again to a node"),
            Ok(false) => tracing::debug!(%name, node = address, "another holds on a node"),
            Err(failure) => tracing::debug!(%name, node = address, %failure, "not replanted"),
        }
    }

    async fn plant(&self) -> Result<bool, Failure> {
        let Renewal {
            name, owner, ttl, ..
        } = &self.claim.renewal;
        if self.leases.is_given_up(owner) {
            return Ok(false);
        }
        let session = self.roster.voter(self.at).await?;
        // What the attempt still takes back from this node would be taken from what is given now.
        if self
            .leases
            .end_of(owner, self.at)
            .is_some_and(|end| !end.is_cancelled())
        {
            return Ok(false);
        }
        let planted = session.replant(&self.claim).await;
        // A release in between may have been there first.
        if self.leases.is_given_up(owner) {
            let parting = Parting {
                roster: Arc::clone(&self.roster),
                at: self.at,
                name: name.clone(),
                owner: owner.clone(),
                ttl: *ttl,
            };
            parting.finish(true).await;
        }
        planted
    }
}
