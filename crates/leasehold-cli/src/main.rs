//! The command `leasehold`.

use std::{
    env::{self as process_env},
    ffi::OsString,
    process::ExitCode,
};

use crate::{
    cli::{Cli, Color, Command, Global},
    exit::{Exit, Problem, Scheme},
    output::{Format, Level, Talk},
};

mod check;
mod child;
mod cli;
mod commands;
mod duration;
mod env;
mod exit;
mod held;
mod output;
mod signals;
mod store;
mod time;
mod usage;
mod wait;
mod want;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = process_env::args_os().collect();
    let rest = || arguments.iter().skip(2).cloned();
    let exit = match arguments.get(1) {
        Some(first) if first == child::guard::ARGUMENT => child::guard::run(rest()),
        Some(first) if first == child::stub::ARGUMENT => child::stub::run(rest()),
        _ => run(&arguments),
    };
    ExitCode::from(exit.get())
}

fn run(arguments: &[OsString]) -> Exit {
    match cli::parse(arguments) {
        Ok(cli) => {
            let talk = talk(&cli.global);
            let scheme = cli.command.scheme();
            let exit = match dispatch(cli, &talk) {
                Ok(exit) => exit,
                Err(problem) => {
                    talk.problem(&problem);
                    problem.exit(scheme)
                }
            };
            talk.flush();
            exit
        }
        Err(error) if usage::is_answer(&error) => {
            let text = error.render();
            let _ = output::print(&text.to_string());
            Exit::YES
        }
        Err(error) => {
            let scheme = usage::scheme(arguments);
            complain(&usage::problem(&error, scheme), scheme)
        }
    }
}

fn complain(problem: &Problem, scheme: Scheme) -> Exit {
    let talk = Talk::new(Level::Error, Format::Text, None);
    talk.problem(problem);
    talk.flush();
    problem.exit(scheme)
}

fn talk(global: &Global) -> Talk {
    let least = match (global.quiet, global.verbose) {
        (true, _) => Level::Error,
        (false, 0) => Level::Note,
        (false, 1) => Level::Info,
        (false, _) => Level::Debug,
    };
    let colour = match global.color {
        Color::Auto => None,
        Color::Always => Some(true),
        Color::Never => Some(false),
    };
    Talk::new(least, global.log_format, colour)
}

fn dispatch(cli: Cli, talk: &Talk) -> Result<Exit, Problem> {
    let Cli { global, command } = cli;
    if global.json && !command.has_data() {
        return Err(
            Problem::usage("this subcommand has no data to print as JSON")
                .hint("for lines on stderr there is --log-format json"),
        );
    }
    match command {
        Command::Fence(args) => commands::fence::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Man(args) => commands::man::run(&args),
        command => {
            signals::settle();
            output::events::listen(talk.clone());
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .map_err(|error| Problem::usage(format!("cannot start: {error}")))?;
            let exit = runtime.block_on(commands::run_async(command, &global, talk));
            // What is still going on in the background has had its time.
            runtime.shutdown_background();
            exit
        }
    }
}
