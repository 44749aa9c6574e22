use alloc::{string::String, sync::Arc};
use core::{borrow::Borrow, fmt};

/// The name of the resource a lock protects: 1 to 512 bytes of UTF-8 without control characters.
///
/// Names are compared byte by byte and never normalised. One rule holds for all backends, so that
/// a name that works on one works on every other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name in bytes.
    pub const MAX_BYTES: usize = 512;

    /// Checks `name`.
    ///
    /// # Errors
    ///
    /// `name` is empty, longer than 512 bytes, has a control character, begins with `~`, or
    /// contains a form that is reserved for companion keys.
    pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
        let name: String = name.into();
        match complaint(&name) {
            Some(reason) => Err(NameError { name, reason }),
            None => Ok(Self(name.into())),
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is wrong with `name`, if anything.
fn complaint(name: &str) -> Option<&'static str> {
    const RESERVED: [&str; 5] = ["}~fence", "}~queue:", "}~waiters:", "}~held:", "}~note:"];
    if name.is_empty() {
        return Some("it is empty");
    }
    if name.len() > Name::MAX_BYTES {
        return Some("it is longer than 512 bytes");
    }
    if name.chars().any(char::is_control) {
        return Some("it has a control character");
    }
    if name.starts_with('~') {
        return Some("names that begin with ~ are reserved");
    }
    if RESERVED.iter().any(|form| name.contains(form)) {
        return Some("it contains a form reserved for companion keys (}~fence, }~queue: ...)");
    }
    None
}

/// A name that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    name: String,
    reason: &'static str,
}

impl NameError {
    /// The refused name, as given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why it was refused.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        self.reason
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        let shown: String = self.name.chars().take(SHOWN).collect();
        let more = if shown.len() < self.name.len() {
            "..."
        } else {
            ""
        };
        write!(f, "invalid lock name {shown:?}{more}: {}", self.reason)
    }
}

impl core::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn odd_but_honest_names_are_taken() {
        for name in [
            "a",
            "invoices/42",
            "a:b:c",
            "user 7",
            "{x}",
            "é",
            "a~b",
            &"n".repeat(512),
        ] {
            assert!(Name::new(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn bad_names_are_refused_with_the_reason() {
        let long = "n".repeat(10_000);
        for name in [
            "",
            "a\nb",
            "\u{7f}",
            "\u{85}",
            "~x",
            "x}~fence",
            "x}~queue:y",
            &long,
        ] {
            let error = Name::new(name).expect_err(name).to_string();
            assert!(error.starts_with("invalid lock name"), "{error}");
            assert!(error.len() < 200, "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
