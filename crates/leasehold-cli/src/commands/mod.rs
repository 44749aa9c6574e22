//! One file for each command.

use crate::{
    cli::{Command, Global},
    exit::{Exit, Problem},
    output::Talk,
};

pub(crate) mod completions;
pub(crate) mod fence;
pub(crate) mod man;

mod acquire;
mod elect;
mod lease;
mod list;
mod nodes;
mod release;
mod renew;
mod run;
mod show;
mod status;
mod under;

pub(crate) use show::describe;

/// Runs a command that needs the store.
///
/// # Errors
///
/// It could not be done.
pub(crate) async fn run_async(
    command: Command,
    global: &Global,
    talk: &Talk,
) -> Result<Exit, Problem> {
    match command {
        // On the heap: what waits for a lock is large, and every other command would pay for it.
        Command::Run(args) => Box::pin(run::run(&args, global, talk)).await,
        Command::Elect(args) => Box::pin(elect::run(&args, global, talk)).await,
        Command::Acquire(args) => Box::pin(acquire::run(&args, global, talk)).await,
        Command::Renew(args) => renew::run(&args, global, talk).await,
        Command::Release(args) => release::run(&args, global, talk).await,
        Command::Status(args) => status::run(&args, global, talk).await,
        Command::List(args) => list::run(&args, global, talk).await,
        Command::Fence(args) => fence::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
