//! Keys in etcd, checked in the same transaction as the write.
//!
//! ```no_run
//! # async fn charge(guard: &leasehold::Guard) -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold::fence::{Claim, Fence, etcd::{Config, Keys}};
//!
//! let keys = Keys::connect(&Config::from_url("etcd://10.0.0.1,10.0.0.2")?).await?;
//! let mut claim = keys.claim("invoices/42", guard).await?; // older ones are now refused
//! claim.write(b"charged").await?; // the key invoices/42
//! # Ok(())
//! # }
//! ```
//!
//! The content is the key that has the resource's name. The mark is the key
//! `PREFIX~fence/RESOURCE`, the fencing token in decimal digits, without a lease.
//!
//! A transaction of your own, with any client, is fenced by one comparison: that the mark still has
//! the value of [`Claimed::condition`]. In `etcdctl txn`: `val("lock/~fence/invoices/42") = "34"`.
//! Where locks and data are in one etcd, the lock's own entry does as well, without a claim: see
//! [`Keys::entry`].

use std::sync::Arc;

use leasehold_core::FencingToken;

use super::{Claim, Error, Fence, Pass, Result, pass};
pub use crate::backend::etcd::Config;
use crate::{
    backend::{
        Failure,
        etcd::{Done, If, Kept, Keyspace, Then},
    },
    error::ErrorKind,
    guard::Guard,
};

/// More races than this one after another are no accident.
const RACES: usize = 1000;

/// The keys of one etcd.
#[derive(Clone, Debug)]
pub struct Keys(Arc<Keyspace>);

/// What a transaction has to compare to be fenced: that `key` has `value`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Condition {
    /// The key of the mark.
    pub key: Vec<u8>,
    /// What it must have.
    pub value: Vec<u8>,
}

impl Keys {
    /// Fences keys in the etcd of `config`, whose prefix is that of the marks. Needs a tokio
    /// runtime.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the configuration contradicts itself, [`Error::Store`] when no
    /// member answers within the call timeout.
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    pub async fn connect(config: &Config) -> Result<Self> {
        let keyspace = Keyspace::connect(config).await.map_err(failed)?;
        Ok(Self(Arc::new(keyspace)))
    }

    /// The key of the entry by which `guard` holds its lock, for locks in this etcd under this
    /// prefix. It is there until nobody is kept out by it any more, so a transaction that compares
    /// its create revision to be greater than 0 takes place while no other holds, or not at all.
    #[must_use]
    pub fn entry(&self, guard: &Guard) -> Vec<u8> {
        self.0.entry(guard.name(), guard.owner())
    }
}

impl Fence for Keys {
    type Claim = Claimed;

    async fn claim(&self, resource: &str, pass: impl Into<Pass> + Send) -> Result<Claimed> {
        let token = pass.into().for_resource(resource)?;
        if resource.is_empty() {
            return Err(Error::invalid("a key of etcd cannot be empty", ""));
        }
        let claimed = Claimed {
            mark: self.0.mark(resource),
            keyspace: Arc::clone(&self.0),
            resource: resource.into(),
            token,
        };
        claimed.raise().await?;
        Ok(claimed)
    }
}

/// A claimed key. Every call checks again.
#[derive(Clone, Debug)]
pub struct Claimed {
    keyspace: Arc<Keyspace>,
    mark: Vec<u8>,
    resource: String,
    token: FencingToken,
}

impl Claimed {
    /// What a transaction of your own has to compare. When it fails on that, another has claimed
    /// the resource: stop.
    #[must_use]
    pub fn condition(&self) -> Condition {
        Condition {
            key: self.mark.clone(),
            value: self.token.to_string().into_bytes(),
        }
    }

    async fn raise(&self) -> Result<()> {
        for _ in 0..RACES {
            let found = self.keyspace.get(&self.mark).await.map_err(failed)?;
            let now = match self.seen(found.as_ref())? {
                Some(seen) if seen > self.token => return Err(self.stale(seen)),
                Some(seen) if seen == self.token => return Ok(()),
                _ => found.map_or(If::Absent, |it| If::Unchanged(it.modified)),
            };
            let Condition { key, value } = self.condition();
            let raise = Then::Write(&key, &value);
            let done = self.keyspace.transact(&self.mark, now, raise).await;
            if let Done::Yes(_) = done.map_err(failed)? {
                return Ok(());
            }
        }
        let resource = &self.resource;
        Err(Error::store(format!(
            "the mark of {resource:?} has changed {RACES} times"
        )))
    }

    /// Does `then` if this claim is still the last one.
    async fn fenced(&self, then: Then<'_>) -> Result<Option<Kept>> {
        let still_mine = If::Has(self.condition().value);
        let done = self.keyspace.transact(&self.mark, still_mine, then).await;
        let (found, repeated) = match done.map_err(failed)? {
            Done::Yes(read) => return Ok(read),
            Done::No { found, repeated } => (found, repeated),
        };
        match self.seen(found.as_ref())? {
            // The first time it may have been done.
            Some(_) if repeated => Err(Error::store(
                "no answer came at first, and the resource was claimed since",
            )),
            Some(seen) if seen > self.token => Err(self.stale(seen)),
            _ => {
                let reason = format!("the mark of {:?} was removed or lowered", self.resource);
                let hint = "does something else write below ~fence/? Claim anew";
                Err(Error::invalid(reason, hint))
            }
        }
    }

    fn seen(&self, mark: Option<&Kept>) -> Result<Option<FencingToken>> {
        let read = |mark: &Kept| {
            let text = String::from_utf8_lossy(&mark.value);
            pass::parse(&text).map_err(|_| Error::unreadable(&self.resource, &text))
        };
        mark.map(read).transpose()
    }

    fn stale(&self, seen: FencingToken) -> Error {
        Error::stale(&self.resource, self.token, seen)
    }
}

impl Claim for Claimed {
    async fn read(&mut self) -> Result<Vec<u8>> {
        let content = self.fenced(Then::Read(self.resource.as_bytes())).await?;
        Ok(content.map(|it| it.value).unwrap_or_default())
    }

    async fn write(&mut self, content: &[u8]) -> Result<()> {
        let write = Then::Write(self.resource.as_bytes(), content);
        self.fenced(write).await.map(drop)
    }
}

fn failed(failure: Failure) -> Error {
    if failure.kind() == ErrorKind::Invalid {
        Error::invalid(failure.message(), failure.hint().unwrap_or_default())
    } else {
        Error::store(failure)
    }
}
