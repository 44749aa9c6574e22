use std::{sync::Arc, time::Duration};

use leasehold_core::FencingToken;

use crate::{Leader, driver::OwnThread, error::Result};

/// An election by name, as [`crate::Election`].
#[derive(Clone, Debug)]
#[must_use = "an election does nothing until someone campaigns"]
pub struct Election {
    inner: crate::Election,
    thread: OwnThread,
}

impl Election {
    pub(super) fn new(inner: crate::Election, thread: &OwnThread) -> Self {
        Self {
            inner,
            thread: thread.clone(),
        }
    }

    /// How long a leader that died stays leader.
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.inner = self.inner.with_ttl(ttl);
        self
    }

    /// Stands for election and waits until this candidate leads; then publishes `value`.
    ///
    /// # Errors
    ///
    /// As [`crate::Election::campaign`].
    pub fn campaign(&self, value: impl Into<String>) -> Result<Leadership> {
        let (election, value) = (self.inner.clone(), value.into());
        let inner = self
            .thread
            .wait(async move { election.campaign(value).await })??;
        Ok(Leadership {
            inner: Arc::new(inner),
            thread: self.thread.clone(),
        })
    }

    /// As [`campaign`](Self::campaign), for `limit` at most.
    ///
    /// # Errors
    ///
    /// As [`crate::Election::campaign_timeout`].
    pub fn campaign_timeout(
        &self,
        value: impl Into<String>,
        limit: Duration,
    ) -> Result<Leadership> {
        let (election, value) = (self.inner.clone(), value.into());
        let call = async move { election.campaign_timeout(value, limit).await };
        let inner = self.thread.wait(call)??;
        Ok(Leadership {
            inner: Arc::new(inner),
            thread: self.thread.clone(),
        })
    }

    /// Becomes leader if nobody leads and nobody stands; `None` if not.
    ///
    /// # Errors
    ///
    /// As [`crate::Election::try_campaign`].
    pub fn try_campaign(&self, value: impl Into<String>) -> Result<Option<Leadership>> {
        let (election, value) = (self.inner.clone(), value.into());
        let call = async move { election.try_campaign(value).await };
        let inner = self.thread.wait(call)??;
        Ok(inner.map(|inner| Leadership {
            inner: Arc::new(inner),
            thread: self.thread.clone(),
        }))
    }

    /// Who leads at this moment; `None` when nobody does.
    ///
    /// # Errors
    ///
    /// As [`crate::Election::leader`].
    pub fn leader(&self) -> Result<Option<Leader>> {
        let election = self.inner.clone();
        self.thread.wait(async move { election.leader().await })?
    }
}

/// The lead of an [`Election`], as [`crate::Leadership`]. Dropping it resigns in the background.
#[derive(Debug)]
#[must_use = "if unused, the leadership is resigned at once"]
pub struct Leadership {
    inner: Arc<crate::Leadership>,
    thread: OwnThread,
}

impl Leadership {
    /// The term: greater than that of every leader before.
    #[must_use]
    pub fn term(&self) -> FencingToken {
        self.inner.term()
    }

    /// Makes sure this candidate still leads, by its own clock.
    ///
    /// # Errors
    ///
    /// `Lost`.
    pub fn check(&self) -> Result<()> {
        self.inner.check()
    }

    /// Publishes another value.
    ///
    /// # Errors
    ///
    /// As [`crate::Leadership::proclaim`].
    pub fn proclaim(&self, value: impl Into<String>) -> Result<()> {
        let (leadership, value) = (Arc::clone(&self.inner), value.into());
        self.thread
            .wait(async move { leadership.proclaim(value).await })?
    }

    /// Gives up the lead.
    ///
    /// # Errors
    ///
    /// As [`crate::Leadership::resign`].
    pub fn resign(self) -> Result<()> {
        let Self { inner, thread } = self;
        match Arc::try_unwrap(inner) {
            Ok(leadership) => thread.wait(async move { leadership.resign().await })?,
            // A proclamation that was given up on still has it; the last to go resigns.
            Err(_) => Ok(()),
        }
    }
}
