//! What this client has in the store, or may have, and until when.
//!
//! A session is kept alive as a whole, so ZooKeeper cannot end one lease of several. The end of
//! each is kept here: who falls silent while its process lives loses its node at the end of its
//! TTL, as a waiter does at the end of its patience. If the process dies, the session ends.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use leasehold_core::{ClientId, FencingToken, Instant, Mode, Name, Owner, Ttl};
use tokio::{sync::mpsc, task::AbortHandle};

use super::{look::Behind, wire::Data};
use crate::backend::{EVENT_BUFFER, Event, Events};

/// Who claims what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) name: Name,
    pub(super) owner: Owner,
}

impl Key {
    pub(super) fn new(name: &Name, owner: &Owner) -> Self {
        Self {
            name: name.clone(),
            owner: owner.clone(),
        }
    }
}

/// A node of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) path: String,
    /// When it was created, in the store's own count.
    pub(super) created: FencingToken,
}

impl Node {
    /// Its own name, without its parent's path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// What is known of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It was asked for, and no answer was read.
    Unknown,
    /// Its node is in the line.
    Waiting(Node),
    /// Its node holds, under this fencing token.
    Holding(Node, FencingToken),
}

impl Place {
    pub(super) fn node(&self) -> Option<&Node> {
        match self {
            Self::Unknown => None,
            Self::Waiting(node) | Self::Holding(node, _) => Some(node),
        }
    }
}

/// A claim of one owner.
#[derive(Debug)]
pub(super) struct Claim {
    /// Tells it from a later one of the same owner.
    pub(super) id: u64,
    /// The session that its node hangs on.
    pub(super) session: i64,
    pub(super) data: Data,
    /// The TTL that was asked for; the one in effect, which can be shorter, is in the data.
    pub(super) asked: Ttl,
    /// When it ends if nothing is heard: a lease with its TTL, a wait with its patience.
    pub(super) end: Instant,
    /// The number of the last attempt.
    pub(super) seq: u32,
    pub(super) place: Place,
    /// What a waiter was told, and when.
    pub(super) told: Option<(Instant, Behind)>,
    attendant: Option<AbortHandle>,
}

impl Claim {
    /// A claim that is about to be asked for.
    pub(super) const fn new(session: i64, data: Data, asked: Ttl, end: Instant, seq: u32) -> Self {
        Self {
            id: 0,
            session,
            data,
            asked,
            end,
            seq,
            place: Place::Unknown,
            told: None,
            attendant: None,
        }
    }

    pub(super) const fn mode(&self) -> Mode {
        self.data.mode
    }
}

/// Which of several removals of the same nodes one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// It goes on until it succeeds.
    Eldest,
    /// It leaves that to another.
    Younger,
}

/// All claims of a store's handle, and the clients that hear of them.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    claims: HashMap<Key, Claim>,
    /// Those whose nodes are being removed, each by these removals in their order.
    doomed: HashMap<Key, Vec<u64>>,
    clients: HashMap<ClientId, mpsc::Sender<Event>>,
}

impl Claims {
    pub(super) fn attach(&self, client: &ClientId) -> Events {
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        let mut inner = self.lock();
        inner.clients.retain(|_, sender| !sender.is_closed());
        inner.clients.insert(client.clone(), sender);
        events
    }

    /// Tells the client of `owner`. What does not fit is found out by asking again.
    pub(super) fn tell(&self, owner: &Owner, event: Event) {
        if let Some(sender) = self.lock().clients.get(&owner.client()) {
            let _ = sender.try_send(event);
        }
    }

    pub(super) fn tell_all(&self, event: &Event) {
        for sender in self.lock().clients.values() {
            let _ = sender.try_send(event.clone());
        }
    }

    /// Notes a claim before it is asked for, and gives its id.
    pub(super) fn begin(&self, key: &Key, mut claim: Claim) -> u64 {
        let mut inner = self.lock();
        inner.last += 1;
        claim.id = inner.last;
        let id = claim.id;
        if let Some(old) = inner.claims.insert(key.clone(), claim) {
            old.unattended();
        }
        id
    }

    /// What `read` makes of the claim of `key`, if there is one.
    pub(super) fn get<T>(&self, key: &Key, read: impl FnOnce(&Claim) -> T) -> Option<T> {
        self.lock().claims.get(key).map(read)
    }

    /// Changes the claim `id`, unless it is gone.
    pub(super) fn change<T>(
        &self,
        key: &Key,
        id: u64,
        change: impl FnOnce(&mut Claim) -> T,
    ) -> Option<T> {
        let mut inner = self.lock();
        inner
            .claims
            .get_mut(key)
            .filter(|claim| claim.id == id)
            .map(change)
    }

    /// Takes the claim `id` out, unless it is gone.
    pub(super) fn remove(&self, key: &Key, id: u64) -> Option<Claim> {
        let mut inner = self.lock();
        inner.claims.get(key).filter(|claim| claim.id == id)?;
        inner.claims.remove(key).inspect(Claim::unattended)
    }

    /// Takes out whatever is claimed.
    pub(super) fn take(&self, key: &Key) -> Option<Claim> {
        self.lock().claims.remove(key).inspect(Claim::unattended)
    }

    /// Takes the claim `id` out if its end has come.
    pub(super) fn remove_ended(&self, key: &Key, id: u64, now: Instant) -> Option<Claim> {
        let mut inner = self.lock();
        let ended = |claim: &&Claim| claim.id == id && claim.end <= now;
        inner.claims.get(key).filter(ended)?;
        inner.claims.remove(key)
    }

    /// Gives the claim `id` its attendant in place of the one it had.
    pub(super) fn attend(&self, key: &Key, id: u64, attendant: AbortHandle) {
        let replaced = self.change(key, id, |claim| claim.attendant.replace(attendant.clone()));
        match replaced {
            Some(before) => before.iter().for_each(AbortHandle::abort),
            None => attendant.abort(),
        }
    }

    pub(super) fn is_attended(&self, key: &Key, id: u64) -> bool {
        let attended = |claim: &Claim| {
            claim.id == id && claim.attendant.as_ref().is_some_and(|it| !it.is_finished())
        };
        self.get(key, attended) == Some(true)
    }

    /// Forgets what hung on a session that is over.
    pub(super) fn end_session(&self, session: i64) {
        let mut inner = self.lock();
        inner.claims.retain(|_, claim| {
            let stays = claim.session != session;
            if !stays {
                claim.unattended();
            }
            stays
        });
    }

    /// Begins the removal of whatever nodes there are of `key`, and gives its number.
    pub(super) fn doom(&self, key: &Key) -> u64 {
        let mut inner = self.lock();
        inner.last += 1;
        let removal = inner.last;
        inner.doomed.entry(key.clone()).or_default().push(removal);
        removal
    }

    /// Whether a removal is under way.
    pub(super) fn is_doomed(&self, key: &Key) -> bool {
        self.lock().doomed.contains_key(key)
    }

    /// Which this removal is; none when there is nothing left to be removed by it.
    pub(super) fn removal(&self, key: &Key, removal: u64) -> Option<Rank> {
        let inner = self.lock();
        let all = inner.doomed.get(key)?;
        let at = all.iter().position(|&one| one == removal)?;
        Some(if at == 0 { Rank::Eldest } else { Rank::Younger })
    }

    /// Ends a removal.
    pub(super) fn removed(&self, key: &Key, removal: u64) {
        let mut inner = self.lock();
        if let Some(all) = inner.doomed.get_mut(key) {
            all.retain(|&one| one != removal);
            if all.is_empty() {
                inner.doomed.remove(key);
            }
        }
    }

    /// Ends all removals of `key` before they look again: there is nothing left, and there will be
    /// something new.
    pub(super) fn pardon(&self, key: &Key) {
        self.lock().doomed.remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// Ends a waiter's attendant, which could look at another's node for long. A holder's ends by
    /// itself when its node goes, without a further request.
    fn unattended(&self) {
        if let (Place::Waiting(_), Some(attendant)) = (&self.place, &self.attendant) {
            attendant.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use leasehold_core::Label;

    fn key() -> Key {
        let client = ClientId::new(1);
        let owner = Owner::new(Random::system().wide(), &client, "h", 1, &Label::default());
        Key::new(&Name::new("n").unwrap(), &owner)
    }

    fn claim(key: &Key, session: i64) -> Claim {
        let data = Data {
            owner: key.owner.clone(),
            mode: Mode::Exclusive,
            ttl: Ttl::DEFAULT,
            phase: None,
            note: None,
        };
        Claim::new(session, data, Ttl::DEFAULT, Instant::from_nanos(7), 0)
    }

    #[test]
    fn a_later_claim_of_an_owner_is_another() {
        let (claims, key) = (Claims::default(), key());
        let first = claims.begin(&key, claim(&key, 1));
        let second = claims.begin(&key, claim(&key, 1));
        assert!(claims.change(&key, first, |_| ()).is_none());
        assert!(claims.remove(&key, first).is_none());
        assert!(claims.remove(&key, second).is_some());
        assert!(claims.take(&key).is_none());
    }

    #[test]
    fn b24_a_session_takes_its_claims_with_it_and_no_others() {
        let (claims, old, new) = (Claims::default(), key(), key());
        claims.begin(&old, claim(&old, 1));
        claims.begin(&new, claim(&new, 2));
        claims.end_session(1);
        assert!(claims.get(&old, |_| ()).is_none());
        assert!(claims.get(&new, |_| ()).is_some());
    }

    #[test]
    fn only_what_has_ended_is_ended() {
        let (claims, key) = (Claims::default(), key());
        let id = claims.begin(&key, claim(&key, 1));
        assert!(
            claims
                .remove_ended(&key, id, Instant::from_nanos(6))
                .is_none()
        );
        assert!(
            claims
                .remove_ended(&key, id + 1, Instant::from_nanos(8))
                .is_none()
        );
        assert!(
            claims
                .remove_ended(&key, id, Instant::from_nanos(7))
                .is_some()
        );
    }

    #[test]
    fn b23_one_removal_goes_on_and_a_pardon_ends_all() {
        let (claims, key) = (Claims::default(), key());
        let (first, second) = (claims.doom(&key), claims.doom(&key));
        assert_eq!(claims.removal(&key, first), Some(Rank::Eldest));
        assert_eq!(claims.removal(&key, second), Some(Rank::Younger));
        claims.removed(&key, first);
        assert_eq!(claims.removal(&key, second), Some(Rank::Eldest));
        claims.pardon(&key);
        assert!(!claims.is_doomed(&key) && claims.removal(&key, second).is_none());
        let third = claims.doom(&key);
        claims.removed(&key, second);
        assert_eq!(claims.removal(&key, third), Some(Rank::Eldest));
    }
}
