use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use leasehold_core::{
    FencingToken, Holder, HolderKind, Mode, Owner, backoff::jittered, lease::Loss,
};

use crate::{
    client::Client,
    driver::acquire::Patience,
    error::{Error, ErrorKind, Result},
    guard::Guard,
    lock::Lock,
    terms::Terms,
};

/// An election by name: of all who campaign, one leads until it resigns, dies or is cut off.
///
/// It is the exclusive lock of that name, with what the leader publishes about itself. The term is
/// the lock's fencing token: strictly greater for every leader, so that whatever is led can refuse
/// one that comes too late.
#[derive(Clone, Debug)]
#[must_use = "an election does nothing until someone campaigns or observes"]
pub struct Election {
    client: Client,
    lock: Lock,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The unique id of this leadership; none of a candidate of another program.
    pub owner: Option<Owner>,
    /// The term: greater than that of every leader before.
    pub term: FencingToken,
    /// What the leader published; empty in the moment between its election and that. Untrusted
    /// text.
    pub value: String,
}

impl Leader {
    fn read(holder: &Holder) -> Option<Self> {
        let stands = match holder.kind {
            HolderKind::Held => true,
            // Else it holds a lock, and stands for nothing.
            HolderKind::Foreign => holder.note.is_some(),
            _ => false,
        };
        let leads = stands && holder.mode == Mode::Exclusive;
        let value = holder.note.clone().unwrap_or_default();
        let (owner, term) = (holder.owner(), holder.token?);
        leads.then_some(Self { owner, term, value })
    }
}

impl Election {
    /// The longest value a leader can publish, in bytes.
    pub const MAX_VALUE: usize = 4096;

    pub(crate) fn new(client: Client, name: String) -> Self {
        Self {
            lock: Lock::new(client.clone(), name),
            client,
        }
    }

    /// How long a leader that died stays leader: as [`Lock::with_ttl`].
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.lock = self.lock.with_ttl(ttl);
        self
    }

    /// Words about the candidate for people to read: as [`Lock::with_label`].
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.lock = self.lock.with_label(label);
        self
    }

    /// The election's name, as given.
    #[must_use]
    pub fn name(&self) -> &str {
        self.lock.name()
    }

    /// Stands for election and waits until this candidate leads; then publishes `value`.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`]; `Invalid` for a value longer than [`MAX_VALUE`](Self::MAX_VALUE).
    /// After an error this candidate does not lead.
    ///
    /// # Cancel safety
    ///
    /// Safe: the candidacy is withdrawn, or the leadership resigned, in the background.
    pub async fn campaign(&self, value: impl Into<String>) -> Result<Leadership> {
        self.stand(value.into(), Patience::Unlimited).await
    }

    /// As [`campaign`](Self::campaign), for `limit` at most.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire_timeout`] and [`campaign`](Self::campaign).
    ///
    /// # Cancel safety
    ///
    /// As [`campaign`](Self::campaign).
    pub async fn campaign_timeout(
        &self,
        value: impl Into<String>,
        limit: Duration,
    ) -> Result<Leadership> {
        self.stand(value.into(), Patience::Within(limit)).await
    }

    /// Becomes leader if nobody leads and nobody stands; `None` if not.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`] and [`campaign`](Self::campaign).
    ///
    /// # Cancel safety
    ///
    /// As [`campaign`](Self::campaign).
    pub async fn try_campaign(&self, value: impl Into<String>) -> Result<Option<Leadership>> {
        self.try_to_stand(value.into(), Patience::Try).await
    }

    async fn stand(&self, value: String, patience: Patience) -> Result<Leadership> {
        let nobody = || {
            let reason = "the store left a candidate without an answer";
            Error::new(ErrorKind::Protocol, reason)
        };
        self.try_to_stand(value, patience).await?.ok_or_else(nobody)
    }

    async fn try_to_stand(&self, value: String, patience: Patience) -> Result<Option<Leadership>> {
        check_value(&value)?;
        let terms: &Terms = self.lock.terms();
        if !self.client.capabilities().notes {
            let store = self.client.capabilities().name;
            let reason =
                format!("the store {store} keeps no notes about holders, so it has no elections");
            return Err(Error::new(ErrorKind::Unsupported, reason).with_hint("file and redis do"));
        }
        let Some(guard) = terms.take(Mode::Exclusive, patience).await? else {
            return Ok(None);
        };
        let leadership = Leadership { guard };
        leadership.proclaim(value).await?;
        Ok(Some(leadership))
    }

    /// Who leads at this moment; `None` when nobody does.
    ///
    /// # Errors
    ///
    /// As [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let status = self.lock.inspect().await?;
        Ok(status.holders.iter().find_map(Leader::read))
    }

    /// Who leads, now and whenever that changes, or what the leader publishes does. Looks twice a
    /// second; while the store is away it keeps trying and says nothing new.
    pub fn observe(&self) -> Observe {
        Observe(Box::pin(next_change(self.clone(), None)))
    }
}

/// A stream of who leads; see [`Election::observe`].
#[must_use = "a stream does nothing until it is polled"]
pub struct Observe(Pin<Box<dyn Future<Output = (Election, Option<Leader>)> + Send>>);

impl std::fmt::Debug for Observe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observe").finish_non_exhaustive()
    }
}

impl Stream for Observe {
    type Item = Option<Leader>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let (election, leader) = ready!(self.0.as_mut().poll(cx));
        self.0 = Box::pin(next_change(election, Some(leader.clone())));
        Poll::Ready(Some(leader))
    }
}

/// Looks until what is seen differs from `known`; the first look always does.
async fn next_change(
    election: Election,
    known: Option<Option<Leader>>,
) -> (Election, Option<Leader>) {
    const LOOKS: Duration = Duration::from_millis(500);
    let mut pause = known.is_some();
    loop {
        let shared = &election.client.driver().shared;
        if pause {
            let until = shared
                .clock
                .now()
                .after(jittered(LOOKS, shared.random.bits()));
            shared.clock.sleep_until(until).await;
        }
        pause = true;
        match election.leader().await {
            Ok(seen) if known.as_ref() != Some(&seen) => return (election, seen),
            _ => {}
        }
    }
}

/// The lead of an [`Election`]. Dropping it resigns in the background.
#[derive(Debug)]
#[must_use = "if unused, the leadership is resigned at once"]
pub struct Leadership {
    guard: Guard,
}

impl Leadership {
    /// The term: greater than that of every leader before. Pass it to what is led.
    #[must_use]
    pub fn term(&self) -> FencingToken {
        self.guard.fencing_token()
    }

    /// The guard behind it: its deadline, its remaining validity, its checks.
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Makes sure this candidate still leads, by its own clock.
    ///
    /// # Errors
    ///
    /// `Lost`.
    pub fn check(&self) -> Result<()> {
        self.guard.check()
    }

    /// Waits until the lead is lost, and says why.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn lost(&self) -> Loss {
        self.guard.lost().await
    }

    /// Publishes another value.
    ///
    /// # Errors
    ///
    /// `Invalid` for a value longer than [`Election::MAX_VALUE`]; `Lost`; `Unavailable` or
    /// `Ambiguous`, and then it is published with the next renewal.
    ///
    /// # Cancel safety
    ///
    /// Safe: the value may have been published.
    pub async fn proclaim(&self, value: impl Into<String>) -> Result<()> {
        let value = value.into();
        check_value(&value)?;
        self.guard.publish(value).await
    }

    /// Gives up the lead.
    ///
    /// # Errors
    ///
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    ///
    /// As [`Guard::release`].
    pub async fn resign(self) -> Result<()> {
        self.guard.release().await
    }
}

fn check_value(value: &str) -> Result<()> {
    if value.len() <= Election::MAX_VALUE {
        return Ok(());
    }
    let reason = format!("a value of {} bytes is too long: at most 4096", value.len());
    Err(Error::new(ErrorKind::Invalid, reason))
}
