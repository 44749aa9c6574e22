use std::{sync::Arc, time::Duration};

use leasehold_core::{Instant, Mode, Name, lease::Loss};

use crate::{
    client::Client,
    driver::{
        acquire::{self, Ask, Patience},
        acquire_all,
    },
    error::{Error, ErrorKind, Result},
    guard::Guard,
    terms::{Terms, terms},
};

/// Several locks at once: all or none, under one guard.
///
/// Where the store can, they are taken in one atomic step. When one of them is held they are taken
/// in sorted order, waiting in turn for each, so that callers who name the same locks in another
/// order never wait for each other in a circle, and single lockers cannot starve them. A name given
/// twice counts once.
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct MultiLock {
    terms: Terms,
    names: Vec<String>,
}

impl MultiLock {
    /// The most names one multi-lock may have.
    pub const MAX_NAMES: usize = 256;

    pub(crate) const fn new(client: Client, names: Vec<String>) -> Self {
        Self {
            terms: Terms::new(client, String::new()),
            names,
        }
    }

    /// Acquires all locks, waiting in turn.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire); `Invalid` for no name or more than
    /// [`MAX_NAMES`](Self::MAX_NAMES). After an error none is held.
    ///
    /// # Cancel safety
    ///
    /// Safe: what was taken is released in the background.
    pub async fn acquire(&self) -> Result<MultiGuard> {
        self.wait(None).await
    }

    /// As [`acquire`](Self::acquire), for `limit` at most in all.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); `Timeout` names the lock that was held to the end.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<MultiGuard> {
        self.wait(Some(limit)).await
    }

    /// Acquires all locks if they are free and nobody waits for them; `None` if not, and then none
    /// is held.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        let asks = self.asks()?;
        match self.take_at_once(&asks).await? {
            AtOnce::Taken(guard) => return Ok(Some(guard)),
            AtOnce::Busy => return Ok(None),
            AtOnce::Impossible => {}
        }
        let mut taken = Taken::default();
        for ask in &asks {
            match self.take(ask, Patience::Try).await {
                Ok(Some(guard)) => taken.0.push(guard),
                Ok(None) => {
                    taken.give_back().await;
                    return Ok(None);
                }
                Err(error) => {
                    taken.give_back().await;
                    return Err(error);
                }
            }
        }
        Ok(Some(MultiGuard { guards: taken.0 }))
    }

    async fn wait(&self, limit: Option<Duration>) -> Result<MultiGuard> {
        let asks = self.asks()?;
        if let AtOnce::Taken(guard) = self.take_at_once(&asks).await? {
            return Ok(guard);
        }
        let clock = self.terms.client.clock();
        let give_up = limit.map(|limit| clock.now().after(limit));
        loop {
            let mut taken = Taken::default();
            for ask in &asks {
                let patience =
                    give_up.map_or(Patience::Unlimited, |at| Patience::Within(at - clock.now()));
                match self.take(ask, patience).await {
                    Ok(guard) => taken.0.extend(guard),
                    Err(error) => {
                        taken.give_back().await;
                        return Err(error);
                    }
                }
            }
            // One taken early can be lost while another was waited for: then none is held.
            match taken.0.iter().find_map(|guard| guard.check().err()) {
                None => return Ok(MultiGuard { guards: taken.0 }),
                Some(error) => {
                    taken.give_back().await;
                    if give_up.is_some_and(|at| clock.now() >= at) {
                        return Err(error);
                    }
                }
            }
        }
    }

    async fn take_at_once(&self, asks: &[Ask]) -> Result<AtOnce> {
        if !self.terms.client.capabilities().many {
            return Ok(AtOnce::Impossible);
        }
        let driver = self.terms.client.driver();
        let held = match acquire_all::try_all(driver, asks).await {
            // More than the store can take in one step.
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(AtOnce::Impossible),
            held => held?,
        };
        let guard = |held| Guard::new(Arc::clone(driver), held);
        Ok(held.map_or(AtOnce::Busy, |held| {
            let guards = held.into_iter().map(guard).collect();
            AtOnce::Taken(MultiGuard { guards })
        }))
    }

    async fn take(&self, ask: &Ask, patience: Patience) -> Result<Option<Guard>> {
        let driver = self.terms.client.driver();
        let held = acquire::acquire(driver, ask, patience).await?;
        Ok(held.map(|held| Guard::new(Arc::clone(driver), held)))
    }

    /// What is asked for, each name once and in order.
    fn asks(&self) -> Result<Vec<Ask>> {
        let mut names = self.names.clone();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() || names.len() > Self::MAX_NAMES {
            let reason = format!(
                "{} names: a multi-lock takes 1 to {}",
                names.len(),
                Self::MAX_NAMES
            );
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let ask = |name| {
            Terms {
                name,
                ..self.terms.clone()
            }
            .ask(Mode::Exclusive)
        };
        names.into_iter().map(ask).collect()
    }
}

terms!(settings MultiLock);

/// What came of taking all in one step.
enum AtOnce {
    Taken(MultiGuard),
    Busy,
    /// The store cannot, or not so many.
    Impossible,
}

/// Guards on the way to becoming one.
#[derive(Debug, Default)]
struct Taken(Vec<Guard>);

impl Taken {
    /// Releases all; what is not confirmed goes on in the background.
    async fn give_back(self) {
        for guard in self.0.into_iter().rev() {
            let _ = guard.release().await;
        }
    }
}

/// Several locks that are held, as one: lost as soon as one of them is.
#[derive(Debug)]
#[must_use = "if unused, the locks are released at once"]
pub struct MultiGuard {
    guards: Vec<Guard>,
}

impl MultiGuard {
    /// The guard of each lock, in the order of their names: each has a fencing token of its own.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// The guard of the lock `name`.
    #[must_use]
    pub fn guard(&self, name: &str) -> Option<&Guard> {
        self.guards
            .iter()
            .find(|guard| guard.name().as_str() == name)
    }

    /// The earliest deadline.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.guards
            .iter()
            .map(Guard::deadline)
            .min()
            .unwrap_or(Instant::ORIGIN)
    }

    /// The least validity left.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guards
            .iter()
            .map(Guard::remaining)
            .min()
            .unwrap_or_default()
    }

    /// Whether all locks are held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Makes sure all locks are held, by the holder's own clock.
    ///
    /// # Errors
    ///
    /// `Lost`, with the name of one that is lost.
    pub fn check(&self) -> Result<()> {
        self.guards.iter().try_for_each(Guard::check)
    }

    /// Waits until one of the locks is lost, and says which and why.
    ///
    /// # Cancel safety
    ///
    /// Safe; it may be called any number of times.
    pub async fn lost(&self) -> (Name, Loss) {
        let mut losses: Vec<_> = self
            .guards
            .iter()
            .map(|guard| Box::pin(guard.lost()))
            .collect();
        std::future::poll_fn(|context| {
            for (loss, guard) in losses.iter_mut().zip(&self.guards) {
                if let std::task::Poll::Ready(loss) = loss.as_mut().poll(context) {
                    return std::task::Poll::Ready((guard.name().clone(), loss));
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    /// Releases all locks, each whether or not another was lost.
    ///
    /// # Errors
    ///
    /// That of the first lock, by name, whose release did not end well, as
    /// [`Guard::release`]; the others are released all the same.
    ///
    /// # Cancel safety
    ///
    /// Safe: the releases go on in the background.
    pub async fn release(self) -> Result<()> {
        let mut outcome = Ok(());
        for guard in self.guards {
            let released = guard.release().await;
            outcome = outcome.and(released);
        }
        outcome
    }
}
