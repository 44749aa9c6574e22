//! clap's complaints in the form of all others: one line, then what to do about it.

use std::ffi::OsString;

use clap::error::ErrorKind;

use crate::{
    cli::definition,
    exit::{Problem, Scheme},
};

/// Whose exit statuses apply to a command line that could not be read: those of `run` if it was
/// to be one.
pub(crate) fn scheme(arguments: &[OsString]) -> Scheme {
    let definition = definition();
    let mut words = arguments.iter().skip(1).take_while(|word| *word != "--");
    match words.find_map(|word| definition.find_subcommand(word)) {
        Some(subcommand) if ["run", "elect"].contains(&subcommand.get_name()) => Scheme::Run,
        _ => Scheme::Ask,
    }
}

/// Whether `error` is what was asked for: help or the version.
pub(crate) fn is_answer(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    )
}

/// The complaint as a problem.
pub(crate) fn problem(error: &clap::Error, scheme: Scheme) -> Problem {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Problem::usage("a subcommand is missing").hint("see leasehold --help");
    }
    let rendered = error.render().to_string();
    let mut message = Vec::new();
    let mut hints = Vec::new();
    for line in rendered.lines().map(str::trim) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        match line
            .strip_prefix("tip:")
            .or_else(|| line.strip_prefix("hint:"))
        {
            Some(hint) => hints.push(hint.trim().to_owned()),
            None if !line.is_empty() => message.push(line),
            None => {}
        }
    }
    let message = message.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let misses_command = matches!(
        error.kind(),
        ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument
    );
    if scheme == Scheme::Run && misses_command {
        let elect = rendered.contains("Usage: leasehold elect");
        let verb = if elect { "elect" } else { "run" };
        let form = format!("the form is leasehold {verb} NAME [OPTIONS] -- CMD [ARG]...");
        hints.insert(0, form);
    }
    if hints.is_empty() {
        hints.push("see leasehold --help".into());
    }
    Problem::usage(message).hint(hints.join("; "))
}
