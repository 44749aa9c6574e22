//! Which files belong to a store, and whether they are where a store can work.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use super::{
    super::{Failure, Sent},
    config::{Config, invalid},
    failure,
    session::{Identity, identity},
};
use crate::error::ErrorKind;

/// As for names: news carry both.
const LONGEST_PREFIX: usize = 512;

/// The files of one store. All processes that use it must arrive at the same ones.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The SQLite database.
    pub(super) database: PathBuf,
    /// What every writer locks first.
    pub(super) gate: PathBuf,
    /// One file and one socket for each process that uses the store.
    pub(super) sessions: PathBuf,
}

impl Place {
    /// Finds the files of the store that `config` names and checks what can be checked from
    /// outside. Creates at most the user's state directory.
    pub(super) fn find(config: &Config) -> Result<Self, Failure> {
        if config.prefix.len() > LONGEST_PREFIX || config.prefix.chars().any(char::is_control) {
            return Err(invalid(format!(
                "a prefix has at most {LONGEST_PREFIX} bytes and no control character"
            ))
            .with_hint("choose a short word, for example --prefix app/"));
        }
        let path = std::path::absolute(&config.path)
            .map_err(|error| failure::io("find", &config.path, error))?;
        if config.own_directory
            && let Some(directory) = path.parent()
        {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(|error| failure::io("create", directory, error))?;
        }
        let database = settle(&path)?;
        let directory = database.parent().unwrap_or(Path::new("/"));
        check_file_system(directory)?;
        let beside = |ending: &str| {
            let mut path = database.clone().into_os_string();
            path.push(ending);
            PathBuf::from(path)
        };
        Ok(Self {
            gate: beside(".gate"),
            sessions: beside(".d"),
            database,
        })
    }

    /// Whether the database is still the file that was `opened`: what is written to one that was
    /// removed, nobody else sees.
    pub(super) fn check_database(&self, opened: Option<Identity>) -> Result<(), Failure> {
        if fs::metadata(&self.database).ok().map(identity) == opened {
            return Ok(());
        }
        let path = self.database.display();
        let message = format!("{path} was removed or replaced while in use");
        // Waiting does not mend it, so it does not count as an outage.
        Err(Failure::new(ErrorKind::Protocol, Sent::No, message)
            .with_hint("restart the programs that use it; locks taken in the old one end"))
    }
}

/// The one path of the file whatever links lead to it: the other files are named after it.
fn settle(path: &Path) -> Result<PathBuf, Failure> {
    match fs::canonicalize(path) {
        Ok(found) => {
            let kind = fs::metadata(&found).map_err(|error| failure::io("read", path, error))?;
            if !kind.is_file() {
                return Err(invalid(format!("{} is not a regular file", path.display()))
                    .with_hint("name a file, for example file:/var/lib/app/locks.db"));
            }
            if kind.nlink() > 1 {
                return Err(
                    invalid(format!("{} has more than one hard link", path.display()))
                        .with_hint("use a symbolic link: all users of a store must find one path"),
                );
            }
            Ok(found)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if fs::symlink_metadata(path).is_ok() {
                return Err(invalid(format!("{} is a link to nowhere", path.display()))
                    .with_hint("create the file it points to, empty, or remove the link"));
            }
            let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(invalid(format!("{} is not a file", path.display())));
            };
            match fs::canonicalize(directory) {
                Ok(directory) => Ok(directory.join(name)),
                Err(error) => {
                    let hint = format!("create it with: mkdir -p {}", directory.display());
                    Err(failure::io("find directory", directory, error).with_hint(hint))
                }
            }
        }
        Err(error) => Err(failure::io("find", path, error)),
    }
}

/// Local file systems, whose locks and shared memory are those of one kernel.
/// Source: linux/magic.h and statfs(2).
#[cfg(target_os = "linux")]
const LOCAL: [(u32, &str); 13] = [
    (0x0000_ef53, "ext2, ext3, ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0x794c_7630, "overlayfs"),
    (0xca45_1a4e, "bcachefs"),
    (0x3153_464a, "jfs"),
    (0x5265_4973, "reiserfs"),
    (0x2405_1905, "ubifs"),
    (0x0000_3434, "nilfs"),
];

/// Others that people meet, for the message alone.
#[cfg(target_os = "linux")]
const OTHERS: [(u32, &str); 12] = [
    (0x0000_6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0000_517b, "SMB"),
    (0x6573_5546, "FUSE or virtiofs"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x786f_4256, "a VirtualBox shared folder"),
    (0x4d44, "FAT"),
];

#[cfg(target_os = "linux")]
fn check_file_system(directory: &Path) -> Result<(), Failure> {
    let found = rustix::fs::statfs(directory)
        .map_err(|error| failure::io("look at the file system of", directory, error.into()))?;
    // The kernel's numbers have 32 bits; the field's width and sign differ between systems.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    judge(found.f_type as u32, directory)
}

#[cfg(target_os = "linux")]
fn judge(kind: u32, directory: &Path) -> Result<(), Failure> {
    if LOCAL.iter().any(|(local, _)| *local == kind) {
        return Ok(());
    }
    let name = OTHERS.iter().find(|(other, _)| *other == kind).map_or_else(
        || format!("of unknown type {kind:#x}"),
        |(_, it)| (*it).into(),
    );
    let directory = directory.display();
    Err(invalid(format!(
        "{directory} is on a file system that is {name}: its locks may not hold"
    ))
    .with_hint("name a file on a local disk with --url file:PATH, or use a server: redis://HOST"))
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps)]
const fn check_file_system(_directory: &Path) -> Result<(), Failure> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn network_and_unknown_file_systems_are_refused_by_name() {
        for (kind, name) in [
            (0x6969, "NFS"),
            (0x0102_1997, "9p"),
            (0x6573_5546, "FUSE"),
            (0xff53_4d42, "CIFS"),
            (0x1234_5678, "0x12345678"),
        ] {
            let failure = judge(kind, Path::new("/mnt/x")).unwrap_err();
            assert!(failure.message().contains(name), "{failure}");
            assert!(failure.message().contains("/mnt/x"), "{failure}");
            assert!(failure.hint().is_some());
        }
        assert!(judge(0xef53, Path::new("/")).is_ok());
    }

    #[test]
    fn links_lead_to_one_place_and_odd_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("real"), "").unwrap();
        std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
        let place = |name: &str| Place::find(&Config::new(at(name)));
        assert_eq!(place("link").unwrap().gate, place("real").unwrap().gate);

        fs::hard_link(at("real"), at("twin")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
        for name in ["twin", "dangling", ".", "missing/locks.db", "real/locks.db"] {
            let failure = place(name).unwrap_err();
            assert!(failure.hint().is_some(), "{name}: {failure}");
            assert!(!failure.is_passing(), "{name}: {failure}");
        }
    }
}
