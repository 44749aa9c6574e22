//! The scripts that run on the server: one file each, embedded here.

use std::sync::LazyLock;

use redis::Cmd;

/// A script that this backend runs on the server.
#[derive(Debug)]
pub struct Script {
    name: &'static str,
    text: String,
    sha: String,
}

impl Script {
    /// What the script is called.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What is sent to the server.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The SHA-1 under which the server knows it.
    #[must_use]
    pub fn sha(&self) -> &str {
        &self.sha
    }

    fn new(name: &'static str, text: &str) -> Self {
        let text = text
            .replace("-- include common.lua\n", COMMON)
            .replace("-- include lease.lua\n", LEASE)
            .replace("-- include slots.lua\n", SLOTS);
        let sha = redis::Script::new(&text).get_hash().to_owned();
        Self { name, text, sha }
    }
}

/// All scripts, for audits and tests.
#[must_use]
pub fn scripts() -> [&'static Script; 17] {
    [
        &ACQUIRE,
        &RELEASE,
        &RENEW,
        &RENEW_SHARED,
        &ACQUIRE_ALL,
        &DOWNGRADE,
        &ANNOTATE,
        &INSPECT,
        &FORCE,
        &RIGHTS,
        &VOTE,
        &RAISE,
        &EXTEND,
        &REPLANT,
        &GIVE_UP,
        &NOTE,
        &MEET,
    ]
}

const COMMON: &str = include_str!("scripts/common.lua");
const LEASE: &str = include_str!("scripts/lease.lua");
const SLOTS: &str = include_str!("scripts/slots.lua");

macro_rules! script {
    ($constant:ident, $name:literal) => {
        pub(super) static $constant: LazyLock<Script> =
            LazyLock::new(|| Script::new($name, include_str!(concat!("scripts/", $name, ".lua"))));
    };
}
script!(ACQUIRE, "acquire");
script!(RELEASE, "release");
script!(RENEW, "renew");
script!(RENEW_SHARED, "renew_shared");
script!(ACQUIRE_ALL, "acquire_all");
script!(DOWNGRADE, "downgrade");
script!(ANNOTATE, "annotate");
script!(INSPECT, "inspect");
script!(FORCE, "force");
script!(RIGHTS, "rights");
script!(VOTE, "vote");
script!(RAISE, "raise");
script!(EXTEND, "extend");
script!(REPLANT, "replant");
script!(GIVE_UP, "give_up");
script!(NOTE, "note");
script!(MEET, "meet");

/// One call of a script.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) script: &'static Script,
    keys: usize,
    words: Vec<Vec<u8>>,
}

impl Call {
    pub(super) fn new<'a>(
        script: &'static Script,
        keys: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let words: Vec<Vec<u8>> = keys.into_iter().map(Into::into).collect();
        Self {
            script,
            keys: words.len(),
            words,
        }
    }

    pub(super) fn arg(mut self, word: impl AsRef<[u8]>) -> Self {
        self.words.push(word.as_ref().to_vec());
        self
    }

    pub(super) fn number(self, number: u64) -> Self {
        self.arg(number.to_string())
    }

    /// The command that runs it by its hash.
    pub(super) fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", &self.script.sha)
    }

    /// The command that runs it by its text, for a server that does not know it.
    pub(super) fn by_text(&self) -> Cmd {
        self.command("EVAL", &self.script.text)
    }

    fn command(&self, verb: &str, body: &str) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(body).arg(self.keys);
        for word in &self.words {
            command.arg(&word[..]);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_stand_behind_the_fast_path_and_only_where_asked_for() {
        for script in scripts() {
            assert!(
                !script.text().contains("\n-- include "),
                "{}",
                script.name()
            );
            assert_eq!(script.sha().len(), 40);
        }
        let acquire = ACQUIRE.text();
        let fast = acquire.find("'EXISTS', KEYS[1]").expect("a fast path");
        assert!(fast < acquire.find("function").expect("helpers"));
    }
}
