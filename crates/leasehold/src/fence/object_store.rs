//! Objects in S3 and its like, through the crate `object_store`, by conditional writes.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use leasehold::{FencingToken, fence::{Claim, Fence, object_store::Objects}};
//! # use object_store::memory::InMemory;
//!
//! let objects = Objects::new(Arc::new(InMemory::new())); // or AmazonS3Builder::new()…
//! let mut claim = objects.claim("invoices/42", FencingToken::new(34)?).await?; // or: &guard
//! claim.write(b"charged").await?;
//!
//! let late = objects.claim("invoices/42", FencingToken::new(33)?).await;
//! assert!(late.is_err_and(|error| error.is_stale()));
//! # Ok(())
//! # }
//! ```
//!
//! The mark is the object's first line, `fence FENCING-TOKEN SERIAL`, and the content follows.
//! Inside, because the version that a conditional write is compared with is a hash of the bytes in
//! many stores: only then does every write change it. A claim writes the object again with a new
//! first line, so keep what is fenced small, and let it name large objects that never change.
//!
//! The store must have conditional writes (`PutMode::Update`): S3, GCS, Azure and R2 do,
//! `LocalFileSystem` does not.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_core::FencingToken;
use object_store::{
    Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion,
    path::Path,
};

use super::{Claim, Error, Fence, Pass, Result, pass};

/// More races than this one after another are no accident.
const RACES: usize = 1000;

/// The objects of one store.
#[derive(Clone, Debug)]
pub struct Objects(Arc<dyn ObjectStore>);

impl Objects {
    /// Fences the objects in `store`.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self(store)
    }
}

impl Fence for Objects {
    type Claim = Claimed;

    async fn claim(&self, resource: &str, pass: impl Into<Pass> + Send) -> Result<Claimed> {
        let token = pass.into().for_resource(resource)?;
        let path = Path::parse(resource).map_err(|error| Error::invalid(error.to_string(), ""))?;
        let claimed = Claimed {
            store: Arc::clone(&self.0),
            path,
            token,
        };
        claimed.current().await?;
        Ok(claimed)
    }
}

/// A claimed object. Every call checks again.
#[derive(Clone, Debug)]
pub struct Claimed {
    store: Arc<dyn ObjectStore>,
    path: Path,
    token: FencingToken,
}

/// What an object is at one version.
struct Found {
    mode: PutMode,
    seen: Option<FencingToken>,
    /// Rises with every write, so that not even the same content makes the same bytes.
    serial: u64,
    content: Bytes,
}

impl Claimed {
    /// The object as it is, with a mark that is raised to this fencing token.
    async fn current(&self) -> Result<Found> {
        for _ in 0..RACES {
            let found = self.find().await?;
            match found.seen {
                Some(seen) if seen > self.token => {
                    return Err(Error::stale(self.path.as_ref(), self.token, seen));
                }
                Some(seen) if seen == self.token => return Ok(found),
                _ => {
                    let content = found.content.clone();
                    self.put(found, &content).await?;
                }
            }
        }
        Err(self.crowded())
    }

    async fn find(&self) -> Result<Found> {
        let answer = match self.store.get(&self.path).await {
            Ok(answer) => answer,
            Err(StoreError::NotFound { .. }) => {
                return Ok(Found {
                    mode: PutMode::Create,
                    seen: None,
                    serial: 0,
                    content: Bytes::new(),
                });
            }
            Err(error) => return Err(Error::store(error)),
        };
        let mode = PutMode::Update(UpdateVersion {
            e_tag: answer.meta.e_tag.clone(),
            version: answer.meta.version.clone(),
        });
        let body = answer.bytes().await.map_err(Error::store)?;
        let Some((seen, serial, start)) = first_line(&body) else {
            let reason = format!("object {} does not begin with a fencing token", self.path);
            return Err(Error::invalid(
                reason,
                "put a first line before it: fence 1 0",
            ));
        };
        Ok(Found {
            mode,
            seen: Some(seen),
            serial,
            content: body.slice(start..),
        })
    }

    /// Replaces what was `found`; `false` if it has changed meanwhile.
    async fn put(&self, found: Found, content: &[u8]) -> Result<bool> {
        let first_line = format!("fence {} {}\n", self.token, found.serial.wrapping_add(1));
        let body = [first_line.as_bytes(), content].concat();
        let put = self
            .store
            .put_opts(&self.path, PutPayload::from(body), found.mode.into());
        match put.await {
            Ok(_) => Ok(true),
            Err(StoreError::Precondition { .. } | StoreError::AlreadyExists { .. }) => Ok(false),
            Err(error @ StoreError::NotImplemented { .. }) => {
                let hint = "use a store that has them: S3, GCS, Azure, R2; or fence files";
                Err(Error::invalid(
                    format!("no conditional writes: {error}"),
                    hint,
                ))
            }
            Err(error) => Err(Error::store(error)),
        }
    }

    fn crowded(&self) -> Error {
        let path = &self.path;
        Error::store(format!(
            "object {path} has changed {RACES} times since it was first read"
        ))
    }
}

impl Claim for Claimed {
    async fn read(&mut self) -> Result<Vec<u8>> {
        Ok(self.current().await?.content.into())
    }

    async fn write(&mut self, content: &[u8]) -> Result<()> {
        for _ in 0..RACES {
            let found = self.current().await?;
            if self.put(found, content).await? {
                return Ok(());
            }
        }
        Err(self.crowded())
    }
}

/// Fencing token and serial of a first line, and where the second begins.
fn first_line(body: &[u8]) -> Option<(FencingToken, u64, usize)> {
    let end = body.iter().take(64).position(|&byte| byte == b'\n')?;
    let words = str::from_utf8(&body[..end]).ok()?.strip_prefix("fence ")?;
    let (token, serial) = words.split_once(' ')?;
    Some((pass::parse(token).ok()?, serial.parse().ok()?, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::kit;
    use object_store::memory::InMemory;

    #[tokio::test]
    async fn the_kit_passes() {
        kit::check(&Objects::new(Arc::new(InMemory::new())), "a").await;
    }

    #[tokio::test]
    async fn an_object_without_a_mark_is_left_alone() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from("a");
        store.put(&path, "mine".into()).await.unwrap();
        let objects = Objects::new(Arc::clone(&store));
        let error = objects.claim("a", FencingToken::MAX).await.unwrap_err();
        assert!(error.to_string().contains("does not begin"), "{error}");
        let body = store.get(&path).await.unwrap().bytes().await.unwrap();
        assert_eq!(&body[..], b"mine");
    }

    #[tokio::test]
    async fn the_same_content_again_makes_another_version() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let objects = Objects::new(Arc::clone(&store));
        let mut claim = objects.claim("a", FencingToken::MAX).await.unwrap();
        let mut bodies = Vec::new();
        for _ in 0..2 {
            claim.write(b"same").await.unwrap();
            let found = store.get(&Path::from("a")).await.unwrap();
            bodies.push(found.bytes().await.unwrap());
        }
        assert_ne!(bodies[0], bodies[1]);
    }
}
