//! The one place that prints: stdout is data, stderr is talk.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

use serde_json::{Map, Value};

pub(crate) use self::talk::{Format, Level, Talk};

pub(crate) mod events;
mod talk;

use crate::exit::Problem;

/// Prints `text` to stdout, as it is. `false` when nobody reads it any more, which is no error:
/// the reader of `leasehold list | head -1` has seen enough.
///
/// # Errors
///
/// Stdout cannot be written to for another reason, such as a full disk.
pub(crate) fn print(text: &str) -> io::Result<bool> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Prints `text`, which is what the command is for.
///
/// # Errors
///
/// Stdout cannot be written to. That nobody reads it any more is no error.
pub(crate) fn data(text: &str) -> Result<(), Problem> {
    match print(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(Problem::usage(format!("cannot write to stdout: {error}"))),
    }
}

/// Prints `object` in one line, with the version of its form.
///
/// # Errors
///
/// As [`data`].
pub(crate) fn json(object: Map<String, Value>) -> Result<(), Problem> {
    let mut whole = Map::new();
    whole.insert("version".into(), 1.into());
    whole.extend(object);
    data(&format!("{}\n", Value::Object(whole)))
}

/// `text` with control characters spelt out. What comes from a store was written by anyone, and a
/// terminal obeys some characters.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "{}", c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Characters that change the order or the look of those around them.
const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelt_out() {
        assert_eq!(escape("job é/42"), "job é/42");
        assert_eq!(
            escape("\x1b[2Jx\r\n\u{9b}\u{202e}"),
            "\\u{1b}[2Jx\\r\\n\\u{9b}\\u{202e}"
        );
    }
}
