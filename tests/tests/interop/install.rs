//! What each language's driver needs, installed below `target/interop`; and how it is started.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Once,
};

/// How redis-py's driver is started; the servers' URLs are to be added.
pub(crate) fn python() -> Command {
    python_with("python", "requirements.txt", "driver.py")
}

/// As [`python`], for Python's Redlocks, which want an older redis-py.
pub(crate) fn python_quorum() -> Command {
    python_with("python-quorum", "quorum.txt", "quorum.py")
}

/// As [`python`], for kazoo; the servers' addresses are to be added.
pub(crate) fn python_zookeeper() -> Command {
    python_with("python-zookeeper", "zookeeper.txt", "zookeeper.py")
}

fn python_with(folder: &str, requirements: &str, driver: &str) -> Command {
    let (home, source) = (home(folder), source("python"));
    let pip = "-m pip install --quiet --disable-pip-version-check --upgrade --target";
    run(Command::new("python3")
        .args(pip.split(' '))
        .arg(&home)
        .arg("--requirement")
        .arg(source.join(requirements)));
    let mut command = Command::new("python3");
    // Without -B it would leave its bytecode beside the source.
    command.arg("-B").arg(source.join(driver));
    command.env("PYTHONPATH", home);
    command
}

/// As [`python`], for Node's libraries.
pub(crate) fn node() -> Command {
    // Two tests use it.
    static ONCE: Once = Once::new();
    let home = home("node");
    ONCE.call_once(|| {
        for file in ["package.json", "package-lock.json"] {
            copy("node", file, &home);
        }
        let npm = "ci --silent --no-audit --no-fund --ignore-scripts";
        run(Command::new("npm").args(npm.split(' ')).current_dir(&home));
    });
    let mut driver = Command::new("node");
    driver.arg(source("node/driver.js"));
    driver.env("NODE_PATH", home.join("node_modules"));
    driver
}

/// As [`python`], for Go's libraries.
pub(crate) fn go() -> Command {
    // Two tests use it.
    static ONCE: Once = Once::new();
    let driver = home("go").join("driver");
    ONCE.call_once(|| {
        run(Command::new("go")
            .args(["build", "-buildvcs=false", "-o"])
            .arg(&driver)
            .current_dir(source("go")));
    });
    Command::new(driver)
}

/// As [`go`], for etcd's client; the members' addresses are to be added.
pub(crate) fn go_etcd() -> Command {
    let driver = home("go").join("etcd");
    run(Command::new("go")
        .args(["build", "-buildvcs=false", "-o"])
        .arg(&driver)
        .arg("./etcd")
        .current_dir(source("go")));
    Command::new(driver)
}

/// As [`python`], for Redisson.
pub(crate) fn java() -> Command {
    java_with("Driver.java")
}

/// As [`java`], for Curator; the servers' addresses are to be added.
pub(crate) fn java_zookeeper() -> Command {
    java_with("ZooKeeperDriver.java")
}

fn java_with(driver: &str) -> Command {
    // Two tests use it.
    static ONCE: Once = Once::new();
    let home = home("java");
    let libraries = home.join("lib");
    ONCE.call_once(|| {
        // Maven writes beside the file that it reads.
        copy("java", "pom.xml", &home);
        run(Command::new("mvn")
            .args(["--quiet", "--batch-mode"])
            .arg("org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies")
            .arg(format!("-DoutputDirectory={}", libraries.display()))
            .current_dir(&home));
    });
    let mut java = Command::new("java");
    java.arg("-cp").arg(libraries.join("*"));
    java.arg(source("java").join(driver));
    java
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("interop")
        .join(path)
}

fn home(language: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let home = target.join("interop").join(language);
    fs::create_dir_all(&home).unwrap();
    home
}

fn copy(language: &str, file: &str, home: &Path) {
    fs::copy(source(language).join(file), home.join(file)).unwrap();
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}
