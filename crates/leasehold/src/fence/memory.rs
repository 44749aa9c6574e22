//! A resource in this process: for tests, and the shortest complete example of a fence.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use leasehold_core::FencingToken;

use super::{Claim, Error, Fence, Pass, Result};

/// Named pieces of content in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<HashMap<String, Entry>>>);

#[derive(Debug, Default)]
struct Entry {
    seen: Option<FencingToken>,
    content: Vec<u8>,
}

impl Memory {
    /// The entry of `resource`, once it has let `shown` in and raised its mark.
    fn admit<T>(
        &self,
        resource: &str,
        shown: FencingToken,
        then: impl FnOnce(&mut Entry) -> T,
    ) -> Result<T> {
        let mut entries = self.lock();
        let entry = entries.entry(resource.into()).or_default();
        match entry.seen {
            Some(seen) if seen > shown => Err(Error::stale(resource, shown, seen)),
            _ => {
                entry.seen = Some(shown);
                Ok(then(entry))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fence for Memory {
    type Claim = Claimed;

    async fn claim(&self, resource: &str, pass: impl Into<Pass> + Send) -> Result<Claimed> {
        let token = pass.into().for_resource(resource)?;
        self.admit(resource, token, |_| ())?;
        Ok(Claimed {
            memory: self.clone(),
            resource: resource.into(),
            token,
        })
    }
}

/// A claimed piece of content.
#[derive(Clone, Debug)]
pub struct Claimed {
    memory: Memory,
    resource: String,
    token: FencingToken,
}

impl Claim for Claimed {
    async fn read(&mut self) -> Result<Vec<u8>> {
        let read = |entry: &mut Entry| entry.content.clone();
        self.memory.admit(&self.resource, self.token, read)
    }

    async fn write(&mut self, content: &[u8]) -> Result<()> {
        let write = |entry: &mut Entry| entry.content = content.to_vec();
        self.memory.admit(&self.resource, self.token, write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::kit;

    #[tokio::test]
    async fn the_kit_passes() {
        kit::check(&Memory::default(), "a").await;
    }
}
