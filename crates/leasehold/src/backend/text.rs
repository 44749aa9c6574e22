//! Text of others: what a URL says, what a server complains of, what another program has stored.

#[cfg(any(feature = "etcd", feature = "redis"))]
use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// How much of a server's error text is passed on.
#[cfg(any(feature = "etcd", feature = "redis"))]
const SHOWN: usize = 200;

/// A part of a URL as it was meant, or `complaint`.
pub(super) fn decoded(text: &str, complaint: &'static str) -> Result<String, &'static str> {
    let text = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| complaint)?;
    Ok(text.into_owned())
}

/// One line of bounded length that no terminal takes for a command.
#[cfg(any(feature = "etcd", feature = "redis"))]
pub(super) fn one_line(text: &str) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(SHOWN).map(clean).collect()
}

/// A foreign value as text that can be typed back: bytes that are no text, and the backslash
/// itself, become `\xHH`.
#[cfg(any(feature = "etcd", feature = "redis"))]
pub(super) fn printable(value: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(value) {
        Ok(text) if !text.contains(|c: char| c.is_control() || c == '\\') => text.into(),
        _ => {
            let escape = |&byte: &u8| match byte {
                b' '..=b'~' if byte != b'\\' => char::from(byte).to_string(),
                _ => format!("\\x{byte:02x}"),
            };
            value.iter().map(escape).collect::<String>().into()
        }
    }
}
