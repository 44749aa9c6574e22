//! Servers that refuse to run as root get an account of their own.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use nix::unistd::{Uid, User, chown};

use super::find;

/// Who a server runs as: another user when this process is root's, else this process's.
#[derive(Debug)]
pub(super) struct Account {
    user: Option<String>,
    home: PathBuf,
}

impl Account {
    /// The account `name`, which `folder` is given to.
    pub(super) fn of(name: &str, folder: &Path) -> Self {
        let root = Uid::effective().is_root();
        let user = root.then(|| {
            let user = User::from_name(name).expect("the accounts can be read");
            user.unwrap_or_else(|| panic!("there is no user {name}; its package brings it"))
        });
        if let Some(user) = &user {
            chown(folder, Some(user.uid), Some(user.gid)).expect("root may");
        }
        Self {
            user: user.map(|user| user.name),
            home: folder.into(),
        }
    }

    /// `program` as this account, to be given arguments.
    pub(super) fn command(&self, program: &Path) -> Command {
        let words = self.prefix(program);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(&self.home);
        command
    }

    /// The words that start `program` as this account, in the same process.
    pub(super) fn prefix(&self, program: &Path) -> Vec<String> {
        let program = program.display().to_string();
        let Some(user) = &self.user else {
            return vec![program];
        };
        let setpriv = find("setpriv").expect("setpriv, of the package util-linux");
        let setpriv = setpriv.display().to_string();
        let who = [format!("--reuid={user}"), format!("--regid={user}")];
        let [uid, gid] = who;
        vec![setpriv, uid, gid, "--clear-groups".into(), program]
    }
}
