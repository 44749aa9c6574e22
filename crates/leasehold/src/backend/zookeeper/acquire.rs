//! One attempt to take a lock.

use std::{sync::Arc, time::Duration};

use leasehold_core::{Attempt, FencingToken, Grant, Held, Instant, Mode, Queued, Request, Ttl};
use zookeeper_client::{CreateMode, Error};

use super::{
    attend,
    claims::{Claim, Key, Node, Place},
    failure::{after_a_write, from_error},
    keys::stem,
    line::Line,
    look::{Behind, Blocker, Look, from_outside, look},
    read::{self, Seen},
    release,
    session::Session,
    shared::Shared,
    wire::Data,
};
use crate::backend::{Failure, Sent};

/// How often a name's node may vanish between being made and being used: containers are removed
/// when they are empty.
const TRIES: u32 = 5;

/// One attempt under way.
struct Call<'a> {
    shared: &'a Arc<Shared>,
    session: Arc<Session>,
    request: &'a Request,
    key: Key,
    /// Before anything was sent: leases count from here.
    began: Instant,
    ttl: Ttl,
}

pub(super) async fn run(shared: &Arc<Shared>, request: &Request) -> Result<Attempt, Failure> {
    check(request)?;
    let began = shared.clock().now();
    let session = shared.sessions.current().await?;
    let call = Call {
        shared,
        ttl: session.effective(request.ttl),
        session,
        request,
        key: Key::new(&request.name, &request.owner),
        began,
    };
    if let Some(answer) = call.again().await? {
        return Ok(answer);
    }
    if shared.claims.is_doomed(&call.key) {
        // What an earlier attempt left must be gone before there is anything new: it has the same
        // owner.
        release::discard(shared, &call.key, None).await?;
        shared.claims.pardon(&call.key);
    }
    if request.wait.is_none() {
        let parent = shared.tree.node(request.name.as_str());
        let children = read::children_now(&call.session.client, &parent).await?;
        let behind =
            from_outside(shared, &call.session, &request.name, request.mode, children).await?;
        if let Some(behind) = behind {
            return Ok(call.not_now(behind));
        }
    }
    call.enter().await
}

/// Whether this can be asked for here at all.
pub(super) fn check(request: &Request) -> Result<(), Failure> {
    if request.min_hold.is_some() {
        return Err(Failure::unsupported(
            "a node ends with its session, so that zookeeper keeps no minimum hold; file and \
             redis do",
        ));
    }
    Ok(())
}

impl Call<'_> {
    /// The attempt of one that asked before; none if it has nothing in the line.
    async fn again(&self) -> Result<Option<Attempt>, Failure> {
        let Self {
            shared,
            key,
            request,
            ..
        } = self;
        let known = shared.claims.get(key, |claim| {
            let over = claim.session != self.session.id || claim.end <= self.began;
            (claim.id, claim.mode(), over, claim.place.clone())
        });
        let Some((id, mode, over, place)) = known else {
            return Ok(None);
        };
        if over {
            // Its lease or its patience has ended: it begins anew, behind the others.
            let claim = shared.claims.remove(key, id);
            release::discard(shared, key, claim).await?;
            return Ok(None);
        }
        if mode != request.mode {
            return Ok(Some(Attempt::Conflict {
                limit: mode.limit(),
            }));
        }
        self.touch(id);
        let node = match place {
            Place::Unknown => match self.find(id).await? {
                Some(node) => node,
                None => return Ok(None),
            },
            Place::Waiting(node) => match self.still_waits(id, &node).await? {
                Some(behind) => return Ok(Some(self.wait(id, &node, behind))),
                None => node,
            },
            Place::Holding(node, token) => {
                let stat = self
                    .session
                    .client
                    .check_stat(&node.path)
                    .await
                    .map_err(from_error)?;
                if stat.is_some() && self.hold(id, &node, token) {
                    return Ok(Some(self.granted(token)));
                }
                shared.claims.remove(key, id);
                return Ok(None);
            }
        };
        let parent = shared.tree.node(key.name.as_str());
        let children = read::children_of(&self.session.client, &parent).await?;
        match look(shared, &self.session, (key, id), &node, children).await? {
            Look::Gone => {
                shared.claims.remove(key, id);
                Ok(None)
            }
            Look::Holds(token) => self.take(id, &node, token).map(Some),
            Look::Waits(behind) => {
                let told = Some((self.began, behind.clone()));
                shared.claims.change(key, id, |claim| claim.told = told);
                Ok(Some(self.wait(id, &node, behind)))
            }
        }
    }

    /// What a waiter was told a short time ago, if what it waits for is still there: it need not
    /// read the whole line to give a sign of life, for its watch will tell.
    async fn still_waits(&self, id: u64, node: &Node) -> Result<Option<Behind>, Failure> {
        const SHORT: Duration = Duration::from_secs(20);
        let Self { shared, key, .. } = self;
        if self.request.wait.is_none() || !shared.claims.is_attended(key, id) {
            return Ok(None);
        }
        let told = shared.claims.get(key, |claim| claim.told.clone()).flatten();
        let Some((at, mut behind)) = told.filter(|(at, _)| self.began - *at < SHORT) else {
            return Ok(None);
        };
        let Blocker::Node(blocker) = &behind.blocker else {
            return Ok(None);
        };
        let paths = [node.path.clone(), blocker.clone()];
        let there = read::nodes(&self.session.client, &paths).await?;
        behind.age(self.began - at);
        let lets_in = |seen: &Seen| self.request.mode == Mode::Read && seen.reads();
        let waits = there[1].as_ref().is_some_and(|seen| !lets_in(seen));
        Ok((there[0].is_some() && waits).then_some(behind))
    }

    /// Notes that the owner was heard.
    fn touch(&self, id: u64) {
        let Some(wait) = self.request.wait else {
            return;
        };
        self.shared.claims.change(&self.key, id, |claim| {
            claim.seq = wait.seq;
            if !matches!(claim.place, Place::Holding(..)) {
                claim.end = claim.end.max(self.began.after(wait.patience));
            }
        });
    }

    /// The node of a claim whose answer was lost: one of this owner that hangs on this very
    /// session. One of an earlier session may still be there, and is about to go.
    async fn find(&self, id: u64) -> Result<Option<Node>, Failure> {
        let Self { shared, key, .. } = self;
        let parent = shared.tree.node(key.name.as_str());
        // Another server may have taken the request than answers now.
        let line = Line::new(read::children_now(&self.session.client, &parent).await?);
        let ours = line
            .children()
            .iter()
            .filter(|child| child.is_of(&key.owner));
        let paths: Vec<String> = ours
            .map(|child| format!("{parent}/{}", child.node))
            .collect();
        let seen = read::nodes(&self.session.client, &paths).await?;
        for (path, seen) in paths.into_iter().zip(seen) {
            if let Some(seen) = seen.filter(|it| it.stat.ephemeral_owner == self.session.id) {
                let node = Node {
                    path,
                    created: read::created(&seen.stat)?,
                };
                let place = Place::Waiting(node.clone());
                shared.claims.change(key, id, |claim| claim.place = place);
                return Ok(Some(node));
            }
        }
        shared.claims.remove(key, id);
        Ok(None)
    }

    /// Goes to the end of the line.
    async fn enter(&self) -> Result<Attempt, Failure> {
        let Self {
            shared,
            key,
            request,
            ..
        } = self;
        let data = Data {
            owner: request.owner.clone(),
            mode: request.mode,
            ttl: self.ttl,
            phase: None,
            note: None,
        };
        let written = data.write();
        let patience = request.wait.map_or(request.ttl.get(), |wait| wait.patience);
        let seq = request.wait.map_or(0, |wait| wait.seq);
        let end = self.began.after(patience);
        let claim = Claim::new(self.session.id, data, request.ttl, end, seq);
        let id = shared.claims.begin(key, claim);
        match self.create(id, written.as_bytes()).await {
            Ok((node, children)) => {
                let entered = self.entered(id, &node, children).await;
                entered.map_err(|failure| after_a_write(&failure))
            }
            Err(failure) => {
                if failure.sent() == Sent::No {
                    shared.claims.remove(key, id);
                }
                Err(failure)
            }
        }
    }

    /// Creates the node, and lists its siblings in the same breath.
    async fn create(&self, id: u64, data: &[u8]) -> Result<(Node, Vec<String>), Failure> {
        let Self {
            shared,
            key,
            session,
            request,
            ..
        } = self;
        let parent = shared.tree.node(key.name.as_str());
        let stem = stem(&key.owner, request.mode, shared.layout());
        let stem = format!("{parent}/{stem}");
        let options = CreateMode::EphemeralSequential.with_acls(session.acls());
        for _ in 0..TRIES {
            let create = session.client.create(&stem, data, &options);
            let list = session.client.list_children(&parent);
            match create.await {
                Ok((stat, number)) => {
                    let path = format!("{stem}{number}");
                    let node = Node {
                        path,
                        created: read::created(&stat)?,
                    };
                    let place = Place::Waiting(node.clone());
                    shared.claims.change(key, id, |claim| claim.place = place);
                    let listed = list.await.map_err(from_error);
                    return Ok((node, listed.map_err(|failure| after_a_write(&failure))?));
                }
                Err(Error::NoNode) => make_parent(session, &parent).await?,
                Err(error) => return Err(from_error(error)),
            }
        }
        Err(Failure::unavailable(
            "the node of the name is removed again and again",
        ))
    }

    async fn entered(
        &self,
        id: u64,
        node: &Node,
        children: Vec<String>,
    ) -> Result<Attempt, Failure> {
        let Self {
            shared,
            key,
            request,
            ..
        } = self;
        match look(shared, &self.session, (key, id), node, children).await? {
            Look::Holds(token) => self.take(id, node, token),
            Look::Waits(behind) if request.wait.is_some() => Ok(self.wait(id, node, behind)),
            Look::Waits(behind) => {
                // Somebody came in between.
                let claim = shared.claims.remove(key, id);
                release::discard(shared, key, claim).await?;
                Ok(self.not_now(behind))
            }
            Look::Gone => {
                shared.claims.remove(key, id);
                Err(Failure::unavailable(
                    "the node was removed at once, by another or with the session",
                ))
            }
        }
    }

    fn take(&self, id: u64, node: &Node, token: FencingToken) -> Result<Attempt, Failure> {
        if self.hold(id, node, token) {
            return Ok(self.granted(token));
        }
        Err(Failure::no_answer("given up while it was asked for"))
    }

    /// Notes that the claim holds, for a full TTL from when this attempt began; `false` if it is
    /// gone.
    fn hold(&self, id: u64, node: &Node, token: FencingToken) -> bool {
        let held = attend::hold(self.shared, (&self.key, id), node, token, self.began);
        if held {
            attend::see_to_it(self.shared, &self.session, &self.key, id, None);
        }
        held
    }

    fn granted(&self, token: FencingToken) -> Attempt {
        Attempt::Granted(Grant::new(token, self.ttl))
    }

    fn wait(&self, id: u64, node: &Node, behind: Behind) -> Attempt {
        let Behind {
            place,
            holder,
            change_in,
            blocker,
            ..
        } = behind;
        if self.request.wait.is_none() {
            return Attempt::Held(Held::new(change_in, holder));
        }
        if !self.shared.claims.is_attended(&self.key, id) {
            attend::see_to_it(self.shared, &self.session, &self.key, id, Some(blocker));
        }
        Attempt::Queued(Queued::new(place, node.created.get(), change_in, holder))
    }

    /// The answer to one that does not wait.
    fn not_now(&self, behind: Behind) -> Attempt {
        let mode = self.request.mode;
        match behind.phase {
            Some(phase) if mode.is_shared() && phase.is_shared() && !mode.joins(phase) => {
                Attempt::Conflict {
                    limit: phase.limit(),
                }
            }
            _ => Attempt::Held(Held::new(behind.change_in, behind.holder)),
        }
    }
}

/// Makes the node of a name, and those above it, as containers: they go when they are empty.
pub(super) async fn make_parent(session: &Session, path: &str) -> Result<(), Failure> {
    let options = CreateMode::Container.with_acls(session.acls());
    match session.client.mkdir(path, &options).await {
        // One above was removed just now: the caller tries again.
        Ok(()) | Err(Error::NoNode) => Ok(()),
        Err(error) => Err(from_error(error)),
    }
}
