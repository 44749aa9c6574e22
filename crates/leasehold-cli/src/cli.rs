//! What can be typed. Help, man pages and completions are all made from this.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::{child::OnLost, duration, exit::Scheme, output::Format};

/// Run commands under locks that know when they are lost.
#[derive(Debug, Parser)]
#[command(
    name = "leasehold",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = AFTER_HELP
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Exit status: 0 yes, 1 no, 2 error; those of `run` and `elect` are in `leasehold run --help`.
Durations need a unit: 250ms, 1.5s, 1m30s, 2h.";

/// What every command takes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The store: file:PATH, file: (the user's own) or redis://HOST:PORT [env: LEASEHOLD_URL]
    /// [default: file:]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Take the store's password from the first line of PATH rather than from the URL
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) password_file: Option<PathBuf>,
    /// What is put before every name in the store [env: LEASEHOLD_PREFIX]
    #[arg(long, global = true, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// How long connecting to the store may take
    #[arg(long, global = true, value_name = "DUR", default_value = "5s")]
    #[arg(value_parser = duration::parse)]
    pub(crate) connect_timeout: Duration,
    /// Print data on stdout as one JSON object
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say only why something failed
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say also what went well; twice, what goes on inside
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Colours on stderr [env: NO_COLOR]
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    /// How lines on stderr look
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: Format,
}

/// When to colour.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Elect(Elect),
    Acquire(Acquire),
    Renew(Renew),
    Release(Release),
    Status(Status),
    List(List),
    Fence(Fence),
    Completions(Completions),
    Man(Man),
}

/// How long to wait for a lock that another holds.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// Wait at most this long for the lock [default: without limit]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// Do not wait: fail if another holds the lock or waits for it
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
}

/// Run a command while holding a lock
///
/// The command is started once the lock is held, never through a shell, and the lock is renewed
/// until all of the command's process group has ended. If the lock cannot be renewed, the command
/// is ended before another could get the lock: TERM at the deadline less the grace, KILL shortly
/// before the deadline. A guard process does so even when this one was killed or stopped. What a
/// command moves to another process group or session is out of reach.
#[derive(Args, Debug)]
#[command(after_help = RUN_AFTER_HELP)]
pub(crate) struct Run {
    /// The lock's name: 1 to 512 bytes without control characters
    pub(crate) name: String,
    /// Hold it together with other readers, and not with a run without --shared
    #[arg(long, conflicts_with_all = ["permits", "also", "at_least"])]
    pub(crate) shared: bool,
    /// Let up to N runs of this name go on at the same time; all of them say the same N
    #[arg(long, value_name = "N", conflicts_with_all = ["also", "at_least"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) permits: Option<u32>,
    /// Hold this lock as well, all or none; may be given up to 255 times
    #[arg(long, value_name = "NAME", conflicts_with = "at_least")]
    pub(crate) also: Vec<String>,
    /// Keep the name taken for at least this long, however short the command is
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub(crate) at_least: Option<Duration>,
    #[command(flatten)]
    pub(crate) holding: Holding,
}

/// How a lock is held while a command runs, and the command.
#[derive(Args, Debug)]
pub(crate) struct Holding {
    /// How long the lock outlives a holder that stops renewing it: 100ms to 24h
    #[arg(long, value_name = "DUR", default_value = "30s", value_parser = duration::parse)]
    pub(crate) ttl: Duration,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    /// End the command after this long, with exit status 123
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,
    /// How long before the deadline the command is asked to end: at most a third of the TTL
    /// [default: a quarter of the TTL, at most 5s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub(crate) grace: Option<Duration>,
    /// What to do when the lock is lost or about to be
    #[arg(long, value_name = "WHAT", default_value = "term")]
    pub(crate) on_lost: OnLost,
    /// The exit status when the lock was not acquired in time [default: 124]
    #[arg(short = 'E', long, value_name = "CODE")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// Words about the holder for those who look [default: the command's name]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD", num_args = 1..)]
    #[arg(value_hint = clap::ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

const RUN_AFTER_HELP: &str = "\
Exit status:
  the command's own; 128+n if signal n ended it
  122  the store could not be reached, or was down when the wait ended
  123  the lock was lost, or --max-hold was over, while the command ran
  124  another held the lock for the whole wait (-E changes it)
  125  wrong usage or configuration; the command was not run
  126  the command cannot be executed
  127  there is no such command

Environment of the command:
  LEASEHOLD_NAME, LEASEHOLD_OWNER, LEASEHOLD_FENCING_TOKEN, LEASEHOLD_TTL_MS
  LEASEHOLD_FENCING_TOKENS: with --also, those of all its locks in the order given
  LEASEHOLD_HELD: by it a nested run of the same name is refused

Example, in a crontab on several hosts whose clocks differ by less than 50 s:
  leasehold run nightly --no-wait --at-least 50s -E 0 -- backup --all";

/// Run a command only while leading
///
/// Of all who stand for the election NAME, one leads, under a term that is greater than any before.
/// The command is started once this one leads, and ended before another can lead, as `run` does. It
/// is the exclusive lock NAME: the term is its fencing token.
#[derive(Args, Debug)]
#[command(after_help = ELECT_AFTER_HELP)]
pub(crate) struct Elect {
    /// The election's name: 1 to 512 bytes without control characters
    pub(crate) name: String,
    /// What the leader says of itself to those who look, such as its address
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) value: String,
    /// Stand again when the command has ended or the lead was lost, until a signal ends it
    #[arg(long, conflicts_with_all = ["wait", "no_wait", "conflict_exit_code"])]
    pub(crate) again: bool,
    #[command(flatten)]
    pub(crate) holding: Holding,
}

const ELECT_AFTER_HELP: &str = "\
Exit status:
  as that of `leasehold run`: the command's own, 123 when the lead was lost, 124 when it was not
  won in time; with --again, that of the last command, or 128+n when signal n ended the wait;
  126 and 127 end it too

Environment of the command:
  as with `leasehold run`; LEASEHOLD_FENCING_TOKEN is the term

Example, one scheduler at a time and another within a minute when its machine fails:
  leasehold elect scheduler --again --value $(hostname):8080 -- scheduler";

/// Acquire a lock for a script that cannot be wrapped, and print its lease
///
/// The lock then lives by its TTL alone: renew it in time with `leasehold renew`, and give it back
/// with `leasehold release`. Whoever has the lease can do both, so treat it as a secret.
#[derive(Args, Debug)]
pub(crate) struct Acquire {
    /// The lock's name: 1 to 512 bytes without control characters
    pub(crate) name: String,
    /// How long the lock lasts unless it is renewed: 100ms to 24h
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub(crate) ttl: Duration,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    /// Keep the name taken for at least this long, however soon it is released
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub(crate) at_least: Option<Duration>,
    /// Words about the holder for those who look
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
}

/// Renew a lease, and print it as it is from then on
///
/// Exit status: 0 renewed, 1 the lock was lost, 2 error.
#[derive(Args, Debug)]
pub(crate) struct Renew {
    /// The lease that `leasehold acquire` printed, or - to read it from stdin
    pub(crate) lease: String,
    /// How long the lock is to last from now on, if that is longer than the lease's own TTL
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,
}

/// Release a lease, or end someone else's by force
///
/// Exit status: 0 released, 1 it was not held any more, 2 error.
#[derive(Args, Debug)]
pub(crate) struct Release {
    /// The lease that `leasehold acquire` printed, or - to read it from stdin
    #[arg(required_unless_present = "force", conflicts_with = "force")]
    pub(crate) lease: Option<String>,
    /// End whatever holds NAME, though its holder may still be at work
    #[arg(long, value_name = "NAME", requires = "yes")]
    pub(crate) force: Option<String>,
    /// Only this holder: the owner that `leasehold status` shows
    #[arg(long, value_name = "OWNER", requires = "force", conflicts_with = "all")]
    pub(crate) owner: Option<String>,
    /// All holders, where there are several
    #[arg(long, requires = "force")]
    pub(crate) all: bool,
    /// That this is meant
    #[arg(long, requires = "force")]
    pub(crate) yes: bool,
}

/// Show who holds a lock and who waits for it
///
/// Exit status: 0 held, 1 free, 2 error.
#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The lock's name
    pub(crate) name: String,
}

/// List the locks that are held or waited for
#[derive(Args, Debug)]
pub(crate) struct List {
    /// Only names that begin with this
    #[arg(default_value = "", hide_default_value = true, value_name = "PREFIX")]
    pub(crate) prefix_of_names: String,
}

/// Print what a resource needs to refuse a holder that comes too late
///
/// A command under `leasehold run` finds its fencing token in LEASEHOLD_FENCING_TOKEN. The resource
/// keeps the largest it has seen and refuses smaller ones, in the same step as the write.
#[derive(Args, Debug)]
pub(crate) struct Fence {
    /// What is to refuse
    pub(crate) resource: Fenced,
    /// For sql: in which dialect
    #[arg(long, value_name = "NAME", default_value = "postgres")]
    pub(crate) database: Database,
}

/// What is to refuse.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Fenced {
    /// Statements for a transaction in a database.
    Sql,
    /// A script for Redis and Valkey.
    Redis,
    /// The contract between a client and a service.
    Http,
    /// A shell script around curl, for S3 and its like.
    S3,
}

/// Whose dialect.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Database {
    /// MySQL and MariaDB.
    Mysql,
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
}

/// Print the completions for a shell
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

/// Write the manual pages into a directory
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Where to
    pub(crate) dir: PathBuf,
}

impl Command {
    /// Whether it has data to print that could be JSON.
    pub(crate) const fn has_data(&self) -> bool {
        !matches!(
            self,
            Self::Run(_) | Self::Elect(_) | Self::Fence(_) | Self::Completions(_) | Self::Man(_)
        )
    }

    /// Whose exit statuses apply.
    pub(crate) const fn scheme(&self) -> Scheme {
        match self {
            Self::Run(_) | Self::Elect(_) => Scheme::Run,
            _ => Scheme::Ask,
        }
    }
}

/// Reads what was typed.
///
/// # Errors
///
/// It is wrong, or asks for help.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&definition().try_get_matches_from(arguments)?)
}

/// The definition that help, man pages and completions are made from.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }
}
