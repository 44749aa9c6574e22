//! `leasehold man DIR`

use std::{fs, path::Path};

use clap_mangen::Man;

use crate::{
    cli::{self, definition},
    exit::{Exit, Problem},
    output::{self, escape},
};

/// Writes a page for the command and one for each subcommand, and prints their paths.
///
/// # Errors
///
/// A page cannot be written.
pub(crate) fn run(args: &cli::Man) -> Result<Exit, Problem> {
    let mut root = definition().disable_help_subcommand(true);
    root.build();
    let mut written = String::new();
    let mut write = |command: clap::Command, name: &str| {
        let path = args.dir.join(format!("{name}.1"));
        save(command, name, &path).map_err(|error| {
            let shown = escape(&path.to_string_lossy());
            Problem::usage(format!("cannot write {shown}: {error}"))
        })?;
        written.push_str(&format!("{}\n", path.display()));
        Ok::<(), Problem>(())
    };
    for subcommand in root.get_subcommands() {
        let name = format!("leasehold-{}", subcommand.get_name());
        write(subcommand.clone(), &name)?;
    }
    write(root.clone(), "leasehold")?;
    output::data(&written)?;
    Ok(Exit::YES)
}

fn save(command: clap::Command, name: &str, path: &Path) -> std::io::Result<()> {
    let mut page = Vec::new();
    Man::new(command)
        .title(name.to_uppercase())
        .render(&mut page)?;
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    fs::write(path, page)
}
