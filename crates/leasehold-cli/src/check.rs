//! What can be refused before the store is even looked for: nothing is created for it.

use std::time::Duration;

use leasehold::{Election, Name, Ttl};

use crate::exit::Problem;

/// Checks the name of a lock.
///
/// # Errors
///
/// It is not allowed.
pub(crate) fn name(name: &str) -> Result<(), Problem> {
    match Name::new(name) {
        Ok(_) => Ok(()),
        Err(error) => Err(Problem::usage(error.to_string())
            .hint("a name is 1 to 512 bytes of UTF-8 without control characters")),
    }
}

/// Checks a TTL.
///
/// # Errors
///
/// It is out of range.
pub(crate) fn ttl(ttl: Duration) -> Result<(), Problem> {
    match Ttl::new(ttl) {
        Ok(_) => Ok(()),
        Err(error) => Err(Problem::usage(error.to_string())
            .hint("it bounds how long others wait for a holder that died: 30s suits most")),
    }
}

/// Checks a minimum hold.
///
/// # Errors
///
/// It is out of range.
pub(crate) fn at_least(span: Option<Duration>) -> Result<(), Problem> {
    if span.is_some_and(|span| span > Ttl::MAX.get()) {
        return Err(Problem::usage("--at-least is at most 24 h")
            .hint("the name stays taken for that long, whatever becomes of the command"));
    }
    Ok(())
}

/// Checks what a leader says of itself.
///
/// # Errors
///
/// It is too long.
pub(crate) fn value(value: &str) -> Result<(), Problem> {
    if value.len() > Election::MAX_VALUE {
        let bytes = value.len();
        return Err(
            Problem::usage(format!("a value of {bytes} bytes is too long"))
                .hint("a value is at most 4096 bytes, such as an address"),
        );
    }
    Ok(())
}

/// Checks words about a holder.
///
/// # Errors
///
/// They are too long.
pub(crate) fn label(label: Option<&str>) -> Result<(), Problem> {
    const LONGEST: usize = 200;
    let bytes = label.map_or(0, str::len);
    if bytes > LONGEST {
        return Err(
            Problem::usage(format!("a label of {bytes} bytes is too long"))
                .hint("a label is at most 200 bytes, for people to read"),
        );
    }
    Ok(())
}
