use alloc::{format, string::String, sync::Arc, vec::Vec};
use core::fmt;

/// The unique id of **one acquisition**: never a thread, a session or a host.
///
/// 128 random bits, then who that is, for people: `<26 characters>;<client>;<host>/<pid>;<label>;`,
/// where host and label are percent-encoded. The random part alone makes it unique; the whole text
/// is what stores compare.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// How long an owner can be in bytes.
    pub const MAX_BYTES: usize = 1024;

    /// The owner of one acquisition, made of 128 random bits and who asks.
    #[must_use]
    pub fn new(random: u128, client: &ClientId, host: &str, pid: u32, label: &Label) -> Self {
        let host: String = host.chars().take(64).collect();
        let (unique, host, label) = (base32(random, 26), encode(&host), encode(label.as_str()));
        Self(format!("{unique};{client};{host}/{pid};{label};").into())
    }

    /// Reads an owner back from a store.
    ///
    /// # Errors
    ///
    /// `text` does not have the form of an owner.
    pub fn parse(text: &str) -> Result<Self, OwnerError> {
        let well_formed = || {
            let fields: Vec<&str> = text.strip_suffix(';')?.split(';').collect();
            let [unique, client, place, _label] = fields[..] else {
                return None;
            };
            let (_host, pid) = place.rsplit_once('/')?;
            let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
            (unique.len() == 26 && is_base32(unique) && is_base32(client)).then_some(())?;
            (printable && pid.parse::<u32>().is_ok() && text.len() <= Self::MAX_BYTES).then_some(())
        };
        well_formed().map(|()| Self(text.into())).ok_or(OwnerError)
    }

    /// The whole text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The client that asked.
    #[must_use]
    pub fn client(&self) -> ClientId {
        ClientId(self.field(1).into())
    }

    /// The host that asked, as it calls itself.
    #[must_use]
    pub fn host(&self) -> String {
        decode(self.field(2).rsplit_once('/').map_or("", |(host, _)| host))
    }

    /// The process that asked, in its own process-id namespace: for people only.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.field(2)
            .rsplit_once('/')
            .and_then(|(_, pid)| pid.parse().ok())
            .unwrap_or(0)
    }

    /// Words about the holder for people to read.
    #[must_use]
    pub fn label(&self) -> String {
        decode(self.field(3))
    }

    fn field(&self, index: usize) -> &str {
        self.0.split(';').nth(index).unwrap_or("")
    }
}

impl AsRef<str> for Owner {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that is not an owner of this product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnerError;

impl fmt::Display for OwnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the owner value of a Leasehold lock")
    }
}

impl core::error::Error for OwnerError {}

/// The unique id of one client: where its pushes go.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(Arc<str>);

impl ClientId {
    /// The id made of 64 random bits.
    #[must_use]
    pub fn new(random: u64) -> Self {
        Self(base32(random.into(), 13).into())
    }

    /// The id as text: 13 characters of `0-9a-z`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Words about the holder for people to read: at most 200 bytes of UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Label(Arc<str>);

impl Label {
    /// The longest label in bytes.
    pub const MAX_BYTES: usize = 200;

    /// Checks `label`.
    ///
    /// # Errors
    ///
    /// `label` is longer than 200 bytes.
    pub fn new(label: impl Into<String>) -> Result<Self, LabelError> {
        let label: String = label.into();
        if label.len() > Self::MAX_BYTES {
            Err(LabelError(label.len()))
        } else {
            Ok(Self(label.into()))
        }
    }

    /// The label.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A label that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelError(usize);

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a label of {} bytes is too long: at most 200", self.0)
    }
}

impl core::error::Error for LabelError {}

/// Crockford's alphabet in lower case: no letter that is read as another.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

fn base32(value: u128, digits: usize) -> String {
    let digit = |place: usize| {
        let index = (value >> (5 * place)) & 31;
        char::from(ALPHABET[usize::try_from(index).unwrap_or(0)])
    };
    (0..digits).rev().map(digit).collect()
}

fn is_base32(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

/// Percent-encodes every byte that could be mistaken for a delimiter or spoil a terminal.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.:@+,=".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Undoes [`encode`]; what is not valid stands for itself, for the text comes from a store.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            decoded.push(byte);
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_put_in_comes_out(
            random: u128, client: u64, host in ".{0,80}", pid: u32, label in ".{0,50}",
        ) {
            let client = ClientId::new(client);
            let label = Label::new(label).expect("short enough");
            let owner = Owner::new(random, &client, &host, pid, &label);
            let read = Owner::parse(owner.as_str()).expect("its own form");
            prop_assert_eq!(&read, &owner);
            prop_assert_eq!(read.client(), client);
            prop_assert_eq!(read.pid(), pid);
            let kept: String = host.chars().take(64).collect();
            prop_assert_eq!(read.host(), kept);
            prop_assert_eq!(read.label(), label.as_str());
        }

        #[test]
        fn foreign_values_are_told_apart_and_never_panic(text in ".{0,120}") {
            let _ = Owner::parse(&text).map(|owner| (owner.host(), owner.label(), owner.pid()));
        }
    }

    #[test]
    fn values_of_other_libraries_are_foreign() {
        for text in [
            "",
            ";",
            "0123abcd",
            "uuid-of-redis-py",
            "a;b;c/1;d;",
            "~kept;x",
            ";;;;",
        ] {
            assert!(Owner::parse(text).is_err(), "{text}");
        }
    }
}
