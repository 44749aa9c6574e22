//! Giving up what an owner has.

use std::{sync::Arc, time::Duration};

use leasehold_core::Released;
use tokio::sync::oneshot;
use zookeeper_client::{Client, Error};

use super::{
    claims::{Claim, Key, Place, Rank},
    failure::from_error,
    line::Line,
    read,
    shared::Shared,
};
use crate::backend::Failure;

/// How soon a removal that failed is tried again; a lost connection is waited for besides.
const AGAIN: Duration = Duration::from_millis(200);

/// Removes whatever the owner has of the name.
pub(super) async fn run(shared: &Arc<Shared>, key: &Key) -> Result<Released, Failure> {
    let claim = shared.claims.take(key);
    discard(shared, key, claim).await
}

/// Removes the node of a claim that is no longer among the claims, or, where it is not known,
/// whatever nodes the owner has.
///
/// Goes on by itself when the future is dropped, or when an attempt fails, until it succeeds or the
/// handle is gone: the session lives on, and with it whatever is left.
pub(super) fn discard(
    shared: &Arc<Shared>,
    key: &Key,
    claim: Option<Claim>,
) -> impl Future<Output = Result<Released, Failure>> + Send + use<> {
    let (sender, answer) = oneshot::channel();
    let removal = Removal {
        number: shared.claims.doom(key),
        shared: Arc::clone(shared),
        key: key.clone(),
        place: claim.map_or(Place::Unknown, |claim| claim.place),
    };
    tokio::spawn(async move {
        let stop = removal.shared.stop.clone();
        tokio::select! { biased;
            () = removal.run(sender) => {}
            () = stop.cancelled() => {}
        }
    });
    async {
        let gone = |_| Failure::no_answer("the store's handle is gone");
        answer.await.map_err(gone)?
    }
}

struct Removal {
    number: u64,
    shared: Arc<Shared>,
    key: Key,
    place: Place,
}

impl Removal {
    async fn run(self, answer: oneshot::Sender<Result<Released, Failure>>) {
        let first = self.attempt().await;
        let mut failed = first.as_ref().is_err_and(Failure::is_passing);
        let _ = answer.send(first);
        // One of several goes on: callers repeat what fails too.
        while failed && self.rank() == Some(Rank::Eldest) {
            let until = self.shared.clock().now().after(AGAIN);
            self.shared.clock().sleep_until(until).await;
            failed = self
                .attempt()
                .await
                .is_err_and(|failure| failure.is_passing());
        }
        self.shared.claims.removed(&self.key, self.number);
    }

    fn rank(&self) -> Option<Rank> {
        self.shared.claims.removal(&self.key, self.number)
    }

    async fn attempt(&self) -> Result<Released, Failure> {
        let session = self.shared.sessions.current().await?;
        let Some(node) = self.place.node() else {
            // From here to the sending of the list nothing is awaited: what is created after a
            // pardon is not on it.
            return match self.rank() {
                Some(_) => self.sweep(&session.client).await,
                None => Ok(Released::NotOurs),
            };
        };
        match session.client.delete(&node.path, None).await {
            Ok(()) if matches!(self.place, Place::Holding(..)) => Ok(Released::Released),
            Ok(()) | Err(Error::NoNode) => Ok(Released::NotOurs),
            Err(error) => Err(from_error(error)),
        }
    }

    /// Removes every node whose name is one of the owner's.
    async fn sweep(&self, client: &Client) -> Result<Released, Failure> {
        let parent = self.shared.tree.node(self.key.name.as_str());
        let line = Line::new(read::children_now(client, &parent).await?);
        let holders = line.holders();
        let mut released = Released::NotOurs;
        for (place, child) in line.children().iter().enumerate() {
            if !child.is_of(&self.key.owner) {
                continue;
            }
            match client
                .delete(&format!("{parent}/{}", child.node), None)
                .await
            {
                Ok(()) if place < holders => released = Released::Released,
                Ok(()) | Err(Error::NoNode) => {}
                Err(error) => return Err(from_error(error)),
            }
        }
        Ok(released)
    }
}
