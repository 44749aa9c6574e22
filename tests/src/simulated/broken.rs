//! Servers that are broken on purpose, to see that the checks notice.

/// A rule that the server lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)] // tests name them
pub enum Breakage {
    /// A release does not ask who holds.
    ReleasesAnybody,
    /// A renewal does not ask who holds.
    RenewsAnybody,
    /// A renewal takes a lock that nobody holds.
    RenewsWhatIsGone,
    /// A release serves nobody.
    ServesNobody,
    /// A waiter that gives up stays in the queue.
    KeepsThoseWhoGaveUp,
    /// A ticket is worth nothing in the next call.
    ForgetsTickets,
    /// Fencing tokens are the time, and may come twice.
    TokensFromTheClock,
    /// A grant that nobody heard of is made.
    GrantsToTheDeaf,
    /// A connection that is replaced lives on.
    NobodyIsCutOff,
}

impl Breakage {
    /// The script `text` without the rule, if the rule is in it.
    pub(super) fn apply(self, script: &str, text: &str) -> Option<String> {
        let mut broken = text.to_owned();
        for (of, old, new) in self.edits() {
            if *of == script || *of == "*" && text.contains(old) {
                assert!(text.contains(old), "{script} lacks: {old}");
                broken = broken.replace(old, new);
            }
        }
        (broken != text).then_some(broken)
    }

    fn edits(self) -> &'static [(&'static str, &'static str, &'static str)] {
        match self {
            Self::ReleasesAnybody => &[
                (
                    "release",
                    "string.sub(value, 1, #ARGV[1]) == ARGV[1]",
                    "true",
                ),
                (
                    "release",
                    "if state.kind == 'exclusive' and state.owner == owner then\n    local rest",
                    "if state.kind == 'exclusive' then\n    local rest",
                ),
            ],
            Self::RenewsAnybody => {
                &[("renew", "if value == ARGV[2 * i - 1] then", "if value then")]
            }
            Self::RenewsWhatIsGone => &[(
                "renew",
                "  if value == ARGV[2 * i - 1] then",
                "  if not value then\n    value = ARGV[2 * i - 1]\n    \
                 redis.call('SET', KEYS[i], value, 'PX', ARGV[2 * i])\n  end\n  \
                 if value == ARGV[2 * i - 1] then",
            )],
            Self::ServesNobody => &[("release", "local _, _, left = settle(look())", "local left")],
            Self::KeepsThoseWhoGaveUp => &[(
                "release",
                "forget(owner)\nlocal _, _, left",
                "local _, _, left",
            )],
            Self::ForgetsTickets => &[
                (
                    "acquire",
                    "old > 0 and math.min(old, fresh) or fresh",
                    "fresh",
                ),
                (
                    "acquire",
                    "if call('ZSCORE', queue, owner) then\n    write_nothing()\n  elseif",
                    "call('ZREM', queue, owner)\n  if",
                ),
            ],
            Self::TokensFromTheClock => &[
                (
                    "acquire",
                    "if last >= tonumber(token) then",
                    "if false then",
                ),
                (
                    "*",
                    "math.max(now_us, (tonumber(last or 0) or 0) + 1)\n  local text",
                    "now_us\n  local text",
                ),
            ],
            Self::GrantsToTheDeaf => &[("*", "if heard == 0 then", "if false then")],
            Self::NobodyIsCutOff => &[],
        }
    }
}
