//! Where the workspace is, and how its tools are called.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_path_buf()
}

/// Where servers are: see the crate's documentation.
pub(crate) fn servers() -> PathBuf {
    std::env::var_os("LEASEHOLD_SERVERS")
        .map_or_else(|| root().join("target/servers"), PathBuf::from)
}

/// `cargo` in the workspace's folder.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// An example of any of the packages, built. With the features of the whole workspace, lest cargo
/// build every dependency once more for the one package.
pub(crate) fn example(name: &str) -> Result<Command> {
    read(cargo().args([
        "build",
        "--quiet",
        "--workspace",
        "--all-features",
        "--example",
        name,
    ]))?;
    let own = std::env::current_exe()?;
    let folder = own.parent().context("this program is in a folder")?;
    Ok(Command::new(folder.join("examples").join(name)))
}

/// Runs a command, showing what it is; an error if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    println!("$ {shown}");
    let status = command
        .status()
        .with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown} ended with {status}");
    }
    Ok(())
}

/// Runs a command and gives what it wrote to stdout.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command
        .output()
        .with_context(|| format!("cannot start {shown}"))?;
    if !output.status.success() {
        let talk = String::from_utf8_lossy(&output.stderr);
        bail!("{shown} ended with {}\n{}", output.status, talk.trim_end());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The command as one would type it, with `cargo` by its name.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name();
    let program = program.unwrap_or_default().to_string_lossy().into_owned();
    let set = command.get_envs().filter_map(|(name, value)| {
        let (name, value) = (name.to_string_lossy(), value?.to_string_lossy());
        Some(format!("{name}={value}"))
    });
    let words = command
        .get_args()
        .map(|word| word.to_string_lossy().into_owned());
    let words = set.chain(std::iter::once(program)).chain(words);
    words.collect::<Vec<_>>().join(" ")
}
