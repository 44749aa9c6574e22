//! Every environment variable the command reads or sets.

use std::{env, ffi::OsString};

use leasehold::Guard;

use crate::{exit::Problem, held::Held};

/// Read: the store, where `--url` is not given.
pub(crate) const URL: &str = "LEASEHOLD_URL";
/// Read: the prefix of names in the store, where `--prefix` is not given.
pub(crate) const PREFIX: &str = "LEASEHOLD_PREFIX";
/// Read: what is added to the store's fencing tokens, after locks have moved from another store.
pub(crate) const TOKEN_BASE: &str = "LEASEHOLD_TOKEN_BASE";
/// Set for the command of `run`: the lock's name.
pub(crate) const NAME: &str = "LEASEHOLD_NAME";
/// Set for the command of `run`: the unique id of the acquisition.
pub(crate) const OWNER: &str = "LEASEHOLD_OWNER";
/// Set for the command of `run`: the fencing token.
pub(crate) const FENCING_TOKEN: &str = "LEASEHOLD_FENCING_TOKEN";
/// Set for the command of `run --also`: the fencing tokens of all its locks, in the order of the
/// command line, separated by spaces.
pub(crate) const FENCING_TOKENS: &str = "LEASEHOLD_FENCING_TOKENS";
/// Set for the command of `run`: the TTL in effect, in milliseconds.
pub(crate) const TTL_MS: &str = "LEASEHOLD_TTL_MS";
/// Set and read: the owners of all the runs around this process, separated by spaces. By it a
/// nested run of the same name is known.
pub(crate) const HELD: &str = "LEASEHOLD_HELD";
/// Read: no colours, when it is set to anything.
const NO_COLOR: &str = "NO_COLOR";

/// The store that the environment names.
///
/// # Errors
///
/// The variable is set and cannot be used.
pub(crate) fn url() -> Result<Option<String>, Problem> {
    let Some(url) = text(URL)? else {
        return Ok(None);
    };
    if url.is_empty() {
        return Err(Problem::usage(format!("{URL} is set and empty"))
            .hint("set it to the URL of the store, or unset it for the local file store"));
    }
    Ok(Some(url))
}

/// The prefix that the environment names.
///
/// # Errors
///
/// The variable is set and cannot be used.
pub(crate) fn prefix() -> Result<Option<String>, Problem> {
    text(PREFIX)
}

/// What is added to fencing tokens.
///
/// # Errors
///
/// The variable is set and is no number.
pub(crate) fn token_base() -> Result<u64, Problem> {
    let Some(base) = text(TOKEN_BASE)? else {
        return Ok(0);
    };
    base.parse()
        .map_err(|_| Problem::usage(format!("{TOKEN_BASE} is not a whole number: {base:?}")))
}

fn text(variable: &str) -> Result<Option<String>, Problem> {
    let refuse = |_| Problem::usage(format!("{variable} is not valid UTF-8"));
    env::var_os(variable)
        .map(|value| value.into_string().map_err(refuse))
        .transpose()
}

/// Whether colours are unwanted.
pub(crate) fn no_color() -> bool {
    env::var_os(NO_COLOR).is_some_and(|value| !value.is_empty())
}

/// The owners of the runs around this process.
pub(crate) fn held() -> Vec<String> {
    let held = env::var(HELD).unwrap_or_default();
    held.split_whitespace().map(Into::into).collect()
}

/// What the command of `run` finds in its environment, whatever was inherited.
/// `names` are those of the command line.
pub(crate) fn for_command(lease: &Held, names: &[String]) -> Vec<(&'static str, OsString)> {
    let guards = lease.guards();
    let named = |name: &String| guards.iter().find(|it| it.name().as_str() == name.as_str());
    let guards_in_order: Vec<&Guard> = names.iter().filter_map(named).copied().collect();
    let tokens: Vec<String> = guards_in_order
        .iter()
        .map(|it| it.fencing_token().to_string())
        .collect();
    let mut around = held();
    around.extend(guards.iter().map(|it| it.owner().to_string()));
    let mut variables = vec![
        (TTL_MS, lease.ttl().as_millis().to_string().into()),
        (HELD, around.join(" ").into()),
    ];
    if let Some(first) = guards_in_order.first() {
        variables.extend([
            (NAME, first.name().as_str().into()),
            (OWNER, first.owner().as_str().into()),
            (FENCING_TOKEN, first.fencing_token().to_string().into()),
        ]);
    }
    if tokens.len() > 1 {
        variables.push((FENCING_TOKENS, tokens.join(" ").into()));
    }
    variables
}
