//! An object store in a folder that several processes share, with conditional writes and with
//! hashes for versions, as S3 has them.

use std::{
    fmt,
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use futures_core::stream::BoxStream;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result, memory::InMemory, path::Path as Location,
};

/// The store in one folder: objects can be put and got.
#[derive(Debug)]
pub struct FileStore(PathBuf);

impl FileStore {
    /// The store in `folder`.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self(folder.into())
    }

    fn body(&self, location: &Location) -> Result<Vec<u8>> {
        fs::read(self.file(location)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::NotFound {
                path: location.to_string(),
                source: error.into(),
            },
            _ => failed(error),
        })
    }

    fn file(&self, location: &Location) -> PathBuf {
        self.0.join(location.as_ref().replace('/', "%2F"))
    }

    fn put(&self, location: &Location, body: &[u8], mode: PutMode) -> Result<()> {
        let gate = File::create(self.0.join(".gate")).map_err(failed)?;
        gate.lock().map_err(failed)?;
        let path = location.to_string();
        match (self.body(location), mode) {
            (Ok(_), PutMode::Create) => {
                let source = "it is there".into();
                return Err(Error::AlreadyExists { path, source });
            }
            (Ok(now), PutMode::Update(before)) if before.e_tag != Some(version(&now)) => {
                let source = "it is another".into();
                return Err(Error::Precondition { path, source });
            }
            (Err(error), PutMode::Update(_)) => return Err(error),
            _ => {}
        }
        let next = self.0.join(".next");
        fs::write(&next, body).map_err(failed)?;
        fs::rename(&next, self.file(location)).map_err(failed)
    }
}

fn version(body: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn failed(error: io::Error) -> Error {
    Error::Generic {
        store: "file",
        source: error.into(),
    }
}

fn cannot<T>(operation: &str) -> Result<T> {
    Err(Error::NotImplemented {
        operation: operation.into(),
        implementer: "file".into(),
    })
}

impl fmt::Display for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "objects in {}", self.0.display())
    }
}

#[async_trait]
impl ObjectStore for FileStore {
    async fn put_opts(
        &self,
        at: &Location,
        payload: PutPayload,
        how: PutOptions,
    ) -> Result<PutResult> {
        let body = bytes::Bytes::from(payload);
        self.put(at, &body, how.mode)?;
        let e_tag = Some(version(&body));
        Ok(PutResult {
            e_tag,
            version: None,
            extensions: Default::default(),
        })
    }

    async fn get_opts(&self, at: &Location, options: GetOptions) -> Result<GetResult> {
        let body = self.body(at)?;
        let e_tag = Some(version(&body));
        let holder = InMemory::new();
        ObjectStoreExt::put(&holder, at, body.into()).await?;
        let mut answer = holder.get_opts(at, options).await?;
        answer.meta.e_tag = e_tag;
        Ok(answer)
    }

    async fn put_multipart_opts(
        &self,
        _: &Location,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        cannot("put in parts")
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Location>>,
    ) -> BoxStream<'static, Result<Location>> {
        InMemory::new().delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Location>) -> BoxStream<'static, Result<ObjectMeta>> {
        InMemory::new().list(prefix)
    }

    async fn list_with_delimiter(&self, _: Option<&Location>) -> Result<ListResult> {
        cannot("list")
    }

    async fn copy_opts(&self, _: &Location, _: &Location, _: CopyOptions) -> Result<()> {
        cannot("copy")
    }
}
