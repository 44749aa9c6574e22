//! What happens to a claim without being asked for: its turn comes, another removes it, its time
//! is up.

use std::{sync::Arc, time::Duration};

use leasehold_core::{FencingToken, Instant, Mode};
use zookeeper_client::Error;

use super::{
    claims::{Claim, Key, Node, Place},
    line::{Line, Turn},
    look::{Blocker, Look, look},
    read::{self, Seen},
    release,
    session::Session,
    shared::Shared,
};
use crate::backend::Event;

/// How soon a watch that could not be set is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// Notes that the claim holds, for a full TTL from `from`; `false` if it is gone.
pub(super) fn hold(
    shared: &Shared,
    (key, id): (&Key, u64),
    node: &Node,
    token: FencingToken,
    from: Instant,
) -> bool {
    let held = shared.claims.change(key, id, |claim| {
        let end = from.after(claim.data.ttl.get());
        claim.end = match claim.place {
            Place::Holding(..) => claim.end.max(end),
            _ => end,
        };
        claim.place = Place::Holding(node.clone(), token);
    });
    held.is_some()
}

/// Gives the claim an attendant; one that waits tells what for.
pub(super) fn see_to_it(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    key: &Key,
    id: u64,
    blocker: Option<Blocker>,
) {
    let attendant = Attendant {
        shared: Arc::clone(shared),
        session: Arc::clone(session),
        key: key.clone(),
        id,
    };
    let task = tokio::spawn(async move {
        let stop = attendant.shared.stop.clone();
        tokio::select! { biased;
            () = stop.cancelled() => {}
            () = attendant.run(blocker) => {}
        }
    });
    shared.claims.attend(key, id, task.abort_handle());
}

struct Attendant {
    shared: Arc<Shared>,
    session: Arc<Session>,
    key: Key,
    id: u64,
}

/// Whether to go on.
enum Next {
    Waits(Blocker),
    Holds,
    Done,
}

impl Attendant {
    async fn run(self, blocker: Option<Blocker>) {
        let mut next = blocker.map_or(Next::Holds, Next::Waits);
        loop {
            let Some(node) = self.node() else { return };
            next = match next {
                Next::Waits(blocker) => self.wait(&node, blocker).await,
                Next::Holds => self.guard(&node).await,
                Next::Done => return,
            };
        }
    }

    fn node(&self) -> Option<Node> {
        let node = |place: &Place| place.node().cloned();
        self.shared
            .claims
            .change(&self.key, self.id, |claim| node(&claim.place))?
    }

    /// Waits until what is in front changes, and looks whether it is our turn.
    async fn wait(&self, node: &Node, blocker: Blocker) -> Next {
        if !self.in_time(self.change(node, &blocker)).await {
            return Next::Done;
        }
        // Both before the look: the lease counts from here at the earliest, and no attempt that
        // comes later was answered when it was.
        let now = self.shared.clock().now();
        let seq = self.shared.claims.get(&self.key, |claim| claim.seq);
        let parent = self.shared.tree.node(self.key.name.as_str());
        let looked = async {
            let children = read::children_of(&self.session.client, &parent).await?;
            look(
                &self.shared,
                &self.session,
                (&self.key, self.id),
                node,
                children,
            )
            .await
        };
        match looked.await {
            Ok(Look::Waits(behind)) => Next::Waits(behind.blocker),
            Ok(Look::Holds(token)) => self.granted(node, token, now, seq.unwrap_or(0)),
            Ok(Look::Gone) => {
                self.shared.claims.remove(&self.key, self.id);
                self.ask_again();
                Next::Done
            }
            Err(_) => {
                self.shared.clock().sleep_until(now.after(AGAIN)).await;
                Next::Waits(blocker)
            }
        }
    }

    fn granted(&self, node: &Node, token: FencingToken, now: Instant, seq: u32) -> Next {
        if !hold(&self.shared, (&self.key, self.id), node, token, now) {
            return Next::Done;
        }
        let in_full = |claim: &Claim| claim.data.ttl >= claim.asked;
        let Some(in_full) = self.shared.claims.get(&self.key, in_full) else {
            return Next::Done;
        };
        if in_full {
            let (name, owner) = (self.key.name.clone(), self.key.owner.clone());
            let event = Event::Granted {
                name,
                owner,
                token,
                seq,
            };
            self.shared.claims.tell(&self.key.owner, event);
        } else {
            // The event has no room for a TTL that is shorter than was asked for; an answer has.
            self.ask_again();
        }
        Next::Holds
    }

    fn ask_again(&self) {
        let owner = self.key.owner.clone();
        self.shared
            .claims
            .tell(&self.key.owner, Event::Again { owner });
    }

    /// Watches over a node that holds until it is gone.
    async fn guard(&self, node: &Node) -> Next {
        if !self.in_time(self.changed(&node.path, false)).await {
            return Next::Done;
        }
        match self.session.client.check_stat(&node.path).await {
            Ok(Some(_)) => Next::Holds,
            Ok(None) => {
                // Who gives a lock up takes the claim out first: this was another.
                if self.shared.claims.remove(&self.key, self.id).is_some() {
                    let owner = self.key.owner.clone();
                    self.shared
                        .claims
                        .tell(&self.key.owner, Event::Revoked { owner });
                }
                Next::Done
            }
            Err(_) => {
                let until = self.shared.clock().now().after(AGAIN);
                self.shared.clock().sleep_until(until).await;
                Next::Holds
            }
        }
    }

    /// Whether `change` comes before the claim ends; if not, what it has is removed.
    async fn in_time(&self, change: impl Future<Output = ()>) -> bool {
        let Self {
            shared, key, id, ..
        } = self;
        tokio::pin!(change);
        loop {
            let end = shared.claims.change(key, *id, |claim| claim.end);
            let Some(end) = end else { return false };
            tokio::select! { biased;
                () = &mut change => return true,
                () = shared.clock().sleep_until(end) => {}
            }
            let now = shared.clock().now();
            if let Some(claim) = shared.claims.remove_ended(key, *id, now) {
                drop(release::discard(shared, key, Some(claim)));
                return false;
            }
        }
    }

    /// Waits until what is in front of us may have changed.
    async fn change(&self, node: &Node, blocker: &Blocker) {
        match blocker {
            Blocker::Node(path) => self.changed(path, self.is_reader()).await,
            Blocker::Any => self.any_changed(node).await,
        }
    }

    fn is_reader(&self) -> bool {
        let reads = |claim: &Claim| claim.mode() == Mode::Read;
        self.shared.claims.get(&self.key, reads) == Some(true)
    }

    /// Waits until the node changes or is gone; for one that `joins_readers`, also not if it is a
    /// writer's that became a reader before it was watched.
    async fn changed(&self, path: &str, joins_readers: bool) {
        match self.session.client.get_and_watch_data(path).await {
            Ok((data, stat, _)) if joins_readers && Seen::new(data.clone(), stat).reads() => {}
            Ok((_, _, watch)) => drop(watch.changed().await),
            Err(Error::NoNode) => {}
            Err(_) => self.pause().await,
        }
    }

    /// Waits until enough of those before us are gone.
    async fn any_changed(&self, node: &Node) {
        let parent = self.shared.tree.node(self.key.name.as_str());
        match self.session.client.list_and_watch_children(&parent).await {
            Ok((children, watch)) => {
                let line = Line::new(children);
                let waits = |place| line.turn(place) != Turn::Now;
                if line.place(node.name()).is_some_and(waits) {
                    drop(watch.changed().await);
                }
            }
            Err(_) => self.pause().await,
        }
    }

    async fn pause(&self) {
        let until = self.shared.clock().now().after(AGAIN);
        self.shared.clock().sleep_until(until).await;
    }
}
