//! Files on this machine: the mark is in a file beside, which is also locked while it is compared.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("report.csv");
//! use leasehold::{FencingToken, fence::file};
//!
//! let report = file::claim(&path, FencingToken::new(34)?)?; // or: guard.fencing_token()
//! let mut text = report.read()?;
//! text.extend(b"42,charged\n");
//! report.write(&text)?;
//!
//! let late = file::claim(&path, FencingToken::new(33)?);
//! assert!(late.is_err_and(|error| error.is_stale()));
//! # Ok(())
//! # }
//! ```
//!
//! A write is a new file that takes the old one's name, so that readers see all of it or nothing.
//! Local file systems only: NFS keeps no promise about locks. A process that is killed gives the
//! lock up; one that is *stopped* just while it compares or writes makes the others wait until it
//! goes on, since nobody can know what it will do next.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    path::{Component, Path, PathBuf},
};

use leasehold_core::FencingToken;

use super::{Claim, Error, Fence, Pass, Result, pass};

/// Claims the file at `path`, which need not exist; its folder must. Blocks while another process
/// writes.
///
/// # Errors
///
/// [`Error::Stale`] when a larger fencing token has been seen; [`Error::Invalid`] when the file
/// beside holds something else; [`Error::Store`] when the system fails.
pub fn claim(path: impl AsRef<Path>, token: FencingToken) -> Result<FencedFile> {
    claim_as(path.as_ref(), &path.as_ref().display().to_string(), token)
}

fn claim_as(path: &Path, resource: &str, token: FencingToken) -> Result<FencedFile> {
    let Some(name) = path.file_name() else {
        return Err(Error::invalid(
            format!("{resource:?} does not name a file"),
            "",
        ));
    };
    let beside = |end: &str| {
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(end);
        path.with_file_name(hidden)
    };
    let file = FencedFile {
        mark: beside(".fence"),
        next: beside(".next"),
        path: path.into(),
        resource: resource.into(),
        token,
    };
    file.admit(|| Ok(()))?;
    Ok(file)
}

/// A claimed file. Every call checks again.
#[derive(Clone, Debug)]
pub struct FencedFile {
    path: PathBuf,
    mark: PathBuf,
    next: PathBuf,
    resource: String,
    token: FencingToken,
}

impl FencedFile {
    /// The file's content; empty when there is no file.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] when a larger fencing token has been seen, and others.
    pub fn read(&self) -> Result<Vec<u8>> {
        self.admit(|| match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other,
        })
    }

    /// Replaces the file, unless a larger fencing token has been seen. It is on disk when this
    /// returns.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`], and then nothing was written. After [`Error::Store`] it may have been.
    pub fn write(&self, content: &[u8]) -> Result<()> {
        self.admit(|| {
            let mut next = File::create(&self.next)?;
            next.write_all(content)?;
            next.sync_all()?;
            fs::rename(&self.next, &self.path)?;
            sync_folder(&self.path)
        })
    }

    /// Does `then` under the lock, once the mark lets it.
    fn admit<T>(&self, then: impl FnOnce() -> io::Result<T>) -> Result<T> {
        let mut mark = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.mark)
            .map_err(Error::store)?;
        // Given up when the file is closed, also by a crash.
        mark.lock().map_err(Error::store)?;
        let mut text = String::new();
        mark.read_to_string(&mut text).map_err(Error::store)?;
        let seen = match text.trim() {
            "" => None,
            text => Some(pass::parse(text).map_err(|_| Error::unreadable(&self.resource, text))?),
        };
        match seen {
            Some(seen) if seen > self.token => {
                return Err(Error::stale(&self.resource, self.token, seen));
            }
            Some(seen) if seen == self.token => {}
            _ => self.raise(&mut mark).map_err(Error::store)?,
        }
        then().map_err(Error::store)
    }

    fn raise(&self, mark: &mut File) -> io::Result<()> {
        mark.rewind()?;
        // Of one length, so that a write cut short by a crash never looks like another number.
        mark.write_all(format!("{:016}\n", self.token.get()).as_bytes())?;
        mark.sync_all()?;
        sync_folder(&self.mark)
    }
}

/// Makes names in the folder of `path` last.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

/// The files below a folder, each a resource of its relative path.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Fences the files in `path` and its folders.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

impl Fence for Folder {
    type Claim = Claimed;

    async fn claim(&self, resource: &str, pass: impl Into<Pass> + Send) -> Result<Claimed> {
        let token = pass.into().for_resource(resource)?;
        let below = Path::new(resource);
        if resource.is_empty()
            || !below
                .components()
                .all(|part| matches!(part, Component::Normal(_)))
        {
            let reason = format!("{resource:?} does not name a file below the folder");
            return Err(Error::invalid(reason, ""));
        }
        let (path, resource) = (self.0.join(below), resource.to_owned());
        blocking(move || claim_as(&path, &resource, token).map(Claimed)).await
    }
}

/// A [`FencedFile`] that blocks no task.
#[derive(Clone, Debug)]
pub struct Claimed(FencedFile);

impl Claim for Claimed {
    async fn read(&mut self) -> Result<Vec<u8>> {
        let file = self.0.clone();
        blocking(move || file.read()).await
    }

    async fn write(&mut self, content: &[u8]) -> Result<()> {
        let (file, content) = (self.0.clone(), content.to_vec());
        blocking(move || file.write(&content)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(Error::store)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::kit;

    #[tokio::test]
    async fn the_kit_passes() {
        let home = tempfile::tempdir().unwrap();
        kit::check(&Folder::new(home.path()), "a").await;
    }

    #[tokio::test]
    async fn a_name_outside_the_folder_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::new(home.path());
        for name in ["../a", "/a", ""] {
            let error = folder.claim(name, FencingToken::MAX).await.unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{name}: {error}");
        }
    }

    #[test]
    fn a_mark_of_something_else_is_not_overwritten() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a");
        fs::write(home.path().join(".a.fence"), "x").unwrap();
        let error = claim(&path, FencingToken::MAX).unwrap_err();
        assert!(error.to_string().contains("not a fencing token"), "{error}");
        assert_eq!(fs::read(home.path().join(".a.fence")).unwrap(), b"x");
    }
}
