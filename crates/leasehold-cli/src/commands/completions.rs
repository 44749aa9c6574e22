//! `leasehold completions SHELL`

use crate::{
    cli::{Completions, definition},
    exit::{Exit, Problem},
    output,
};

/// Prints the completions.
///
/// # Errors
///
/// Stdout cannot be written to.
pub(crate) fn run(args: &Completions) -> Result<Exit, Problem> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition(), "leasehold", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::YES)
}
