//! The queue of a name as it was read at one revision: who holds, who waits, and behind whom.
//!
//! The oldest entry holds. So do those right behind it for as long as they can share with it; the
//! first that cannot, and all behind that one, wait. An entry that holds goes on holding until it
//! is gone: whatever happens to the others, it stays within the leading run.

use std::time::Duration;

use leasehold_core::{FencingToken, Holder, HolderKind, Mode, Waiting};

use super::{
    form::Form,
    keys::{Prefix, Suffix},
    proto::KeyValue,
};
use crate::backend::text::printable;

/// The queue of a name at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) revision: i64,
    /// In the order in which they were created.
    pub(super) entries: Vec<Entry>,
}

/// One that holds or waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) created: i64,
    pub(super) modified: i64,
    pub(super) lease: i64,
    pub(super) who: Who,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Ours(Form),
    /// Of another program: how people are shown it, and what it has for a value.
    Foreign {
        shown: String,
        note: Option<String>,
    },
}

/// What a newcomer that does not wait would find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chance {
    Free,
    Held,
    /// Held in permits of this limit.
    Conflict(u32),
}

/// The fencing token of one that holds, and on whose entry it depends that it is that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Phase {
    pub(super) token: i64,
    /// The place in the line of the entry that has to be unchanged for one that joins.
    pub(super) source: Option<usize>,
}

impl Line {
    /// Those of `kvs` that belong to `name`.
    pub(super) fn read(prefix: &Prefix, name: &str, revision: i64, kvs: Vec<KeyValue>) -> Self {
        let entry = |kv: KeyValue| {
            let (of, suffix) = prefix.split(&kv.key)?;
            (of == name).then_some(())?;
            Entry::read(suffix, kv)
        };
        let mut entries: Vec<Entry> = kvs.into_iter().filter_map(entry).collect();
        // Those that were created in one transaction are of different names.
        entries.sort_by_key(|entry| entry.created);
        Self { revision, entries }
    }

    /// How many hold.
    pub(super) fn run(&self) -> usize {
        let Some(first) = self.entries.first().map(Entry::mode) else {
            return 0;
        };
        let mut taken = first.weight();
        let followers = self.entries[1..].iter().map(Entry::mode);
        let together = followers.take_while(|mode| {
            taken = taken.saturating_add(mode.weight());
            mode.joins(first) && (first.limit() == 0 || taken <= first.limit())
        });
        1 + together.count()
    }

    /// What a newcomer in `mode` would find that does not wait.
    pub(super) fn chance(&self, mode: Mode) -> Chance {
        let Some(first) = self.entries.first().map(Entry::mode) else {
            return Chance::Free;
        };
        let run = self.run();
        let taken: u32 = self.entries.iter().map(|it| it.mode().weight()).sum();
        let room = first.limit() == 0 || taken.saturating_add(mode.weight()) <= first.limit();
        if run == self.entries.len() && mode.joins(first) && room {
            Chance::Free
        } else if first.is_shared() && mode.is_shared() && !mode.joins(first) {
            Chance::Conflict(first.limit())
        } else {
            Chance::Held
        }
    }

    pub(super) fn place(&self, key: &[u8]) -> Option<usize> {
        self.entries.iter().position(|entry| entry.key == key)
    }

    /// The fencing token of the phase, for the entry at `me` or for a newcomer behind the run.
    ///
    /// Those that share a phase have one fencing token: the revision of the entry that began it. It
    /// may be gone by now, so those that join write it down, on condition that the entry they have
    /// it from is unchanged. So whoever has not written one down is first and its own revision is
    /// the fencing token, or does not hold yet.
    pub(super) fn phase(&self, me: usize) -> Phase {
        let mine = self.entries.get(me);
        if let Some(token) = mine.and_then(Entry::phase) {
            return Phase {
                token,
                source: None,
            };
        }
        let run = self.run().min(self.entries.len());
        let written = (0..run).find_map(|at| Some((at, self.entries[at].phase()?)));
        if let Some((at, token)) = written {
            return Phase {
                token,
                source: Some(at),
            };
        }
        match (me, self.entries.first(), mine) {
            (0, _, Some(mine)) => Phase {
                token: mine.created,
                source: None,
            },
            (_, Some(first), _) => Phase {
                token: first.created,
                source: Some(0),
            },
            (_, None, _) => Phase {
                token: 0,
                source: None,
            },
        }
    }

    /// Behind whom the entry at `me` waits: when one of them changes, it has to look again.
    pub(super) fn blockers(&self, me: usize) -> Vec<usize> {
        let (run, mode) = (self.run(), self.entries[me].mode());
        if me < run {
            return Vec::new();
        }
        if !mode.is_shared() {
            return vec![me - 1];
        }
        let apart = (0..me)
            .rev()
            .find(|&at| !self.entries[at].mode().joins(mode));
        match apart {
            Some(at) => vec![at],
            // Only room is missing. The first in line needs any that holds to go; those behind it
            // need the one in front to come in, which it writes down.
            None if me == run => (0..run).collect(),
            None => vec![me - 1],
        }
    }

    /// When something can change without anybody being told.
    pub(super) fn change_in(&self) -> Duration {
        const UNKNOWN: Duration = Duration::from_secs(60);
        let span = |entry: &Entry| entry.form().map_or(UNKNOWN, |form| form.ttl.get());
        let holders = self.entries[..self.run()].iter();
        holders.map(span).min().unwrap_or_default()
    }

    /// The one that holds, without what takes a question more.
    pub(super) fn first_holder(&self) -> Option<Holder> {
        let first = self.entries.first()?;
        let remaining = first.form().map(|form| form.ttl.get());
        Some(self.holder(0, remaining, None, first))
    }

    /// How the one at `at` is shown that holds.
    pub(super) fn holder(
        &self,
        at: usize,
        remaining: Option<Duration>,
        wall_micros: Option<u64>,
        entry: &Entry,
    ) -> Holder {
        match &entry.who {
            Who::Foreign { shown, note } => {
                let mut holder = Holder::foreign(HolderKind::Foreign, shown.clone(), remaining);
                holder.token = Some(fencing(entry.created));
                holder.note.clone_from(note);
                holder
            }
            Who::Ours(form) => {
                let token = fencing(self.phase(at).token);
                let mut holder = Holder::new(&form.owner, form.mode, token, Duration::ZERO);
                holder.remaining = remaining.map(|left| left.min(form.ttl.get()));
                holder.note.clone_from(&form.note);
                holder.held_for = wall_micros
                    .zip(form.since)
                    .and_then(|(now, since)| now.checked_sub(since))
                    .map(Duration::from_micros);
                if form.kept {
                    holder.kind = HolderKind::Kept;
                }
                holder
            }
        }
    }
}

impl Entry {
    fn read(suffix: Suffix, kv: KeyValue) -> Option<Self> {
        let who = match (suffix, Form::read(&kv.value)) {
            (Suffix::Unique, Some(form)) => Who::Ours(form),
            // Else it is data that happens to have such a name.
            (Suffix::Lease(lease), _) if lease != kv.lease => return None,
            (suffix, _) => {
                let text = printable(&kv.value).into_owned();
                let shown = match suffix {
                    Suffix::Lease(lease) => format!("{lease:x}"),
                    Suffix::Unique => text.clone(),
                };
                let note = Some(text).filter(|text| !text.is_empty());
                Who::Foreign { shown, note }
            }
        };
        Some(Self {
            key: kv.key,
            created: kv.created,
            modified: kv.modified,
            lease: kv.lease,
            who,
        })
    }

    pub(super) const fn form(&self) -> Option<&Form> {
        match &self.who {
            Who::Ours(form) => Some(form),
            Who::Foreign { .. } => None,
        }
    }

    pub(super) fn mode(&self) -> Mode {
        self.form().map_or(Mode::Exclusive, |form| form.mode)
    }

    /// What names this entry when it is to be put out.
    pub(super) fn is_called(&self, observed: &str) -> bool {
        match &self.who {
            Who::Ours(form) => form.owner.as_str() == observed,
            Who::Foreign { shown, .. } => shown == observed,
        }
    }

    /// How one that waits is shown.
    pub(super) fn waiting(&self, alive_for: Duration) -> Waiting {
        let ticket = u64::try_from(self.created).unwrap_or(0);
        match &self.who {
            Who::Ours(form) => Waiting::new(&form.owner, form.mode, ticket, alive_for),
            Who::Foreign { shown, .. } => {
                let mut waiting = Waiting::foreign(shown.clone(), Mode::Exclusive, ticket);
                waiting.alive_for = alive_for;
                waiting
            }
        }
    }

    fn phase(&self) -> Option<i64> {
        let token = self.form()?.phase?.get();
        i64::try_from(token).ok()
    }
}

/// A revision as a fencing token. Stores do not come near the largest.
pub(super) fn fencing(revision: i64) -> FencingToken {
    let revision = u64::try_from(revision).unwrap_or(0).max(1);
    FencingToken::new(revision).unwrap_or(FencingToken::MAX)
}

#[cfg(test)]
mod tests {
    use leasehold_core::{ClientId, Label, Name, Owner, Ttl};

    use super::*;

    const NAME: &str = "n";

    fn owner(number: u128) -> Owner {
        Owner::new(number, &ClientId::new(1), "h", 1, &Label::default())
    }

    fn permits(limit: u32, weight: u32) -> Mode {
        Mode::permits(limit, weight).unwrap()
    }

    /// A line of these, created at 10, 11, ...; each with the fencing token it wrote down.
    fn line(entries: &[(Mode, Option<u64>)]) -> Line {
        let prefix = Prefix::default();
        let name = Name::new(NAME).unwrap();
        let kv = |(at, &(mode, phase)): (usize, &(Mode, Option<u64>))| {
            let created = 10 + i64::try_from(at).unwrap();
            let owner = owner(u128::try_from(at).unwrap());
            let mut form = Form::new(owner.clone(), mode, Ttl::DEFAULT);
            form.phase = phase.map(|it| FencingToken::new(it).unwrap());
            KeyValue {
                key: prefix.entry(&name, &owner),
                created,
                modified: created,
                value: form.write(),
                lease: 1,
            }
        };
        let kvs = entries.iter().enumerate().map(kv).rev().collect();
        Line::read(&prefix, NAME, 99, kvs)
    }

    fn modes(modes: &[Mode]) -> Line {
        let entries: Vec<_> = modes.iter().map(|&mode| (mode, None)).collect();
        line(&entries)
    }

    #[test]
    fn the_leading_run_holds() {
        use Mode::{Exclusive as X, Read as R};
        let cases: [(&[Mode], usize); 8] = [
            (&[], 0),
            (&[X, X], 1),
            (&[X, R], 1),
            (&[R, R, R, X, R], 3),
            (&[permits(3, 2), permits(3, 1), permits(3, 1)], 2),
            (&[permits(3, 2), permits(3, 2), permits(3, 1)], 1),
            (&[permits(3, 1), permits(2, 1)], 1),
            (&[permits(3, 1), R], 1),
        ];
        for (entries, run) in cases {
            assert_eq!(modes(entries).run(), run, "{entries:?}");
        }
    }

    #[test]
    fn b32_a_try_goes_past_nobody() {
        use Mode::{Exclusive as X, Read as R};
        let cases: [(&[Mode], Mode, Chance); 8] = [
            (&[], X, Chance::Free),
            (&[R], R, Chance::Free),
            (&[R, X], R, Chance::Held),
            (&[X], R, Chance::Held),
            (&[R], permits(2, 1), Chance::Conflict(0)),
            (&[permits(3, 1)], permits(2, 1), Chance::Conflict(3)),
            (&[permits(3, 2)], permits(3, 1), Chance::Free),
            (&[permits(3, 2)], permits(3, 2), Chance::Held),
        ];
        for (entries, mode, chance) in cases {
            assert_eq!(modes(entries).chance(mode), chance, "{entries:?} {mode:?}");
        }
    }

    #[test]
    fn one_waits_behind_what_has_to_go_before_it_can_come_in() {
        use Mode::{Exclusive as X, Read as R};
        let p = permits(2, 1);
        assert_eq!(modes(&[X, R, X]).blockers(2), [1]);
        assert_eq!(modes(&[R, X, R, R]).blockers(3), [1]);
        assert_eq!(modes(&[R, R]).blockers(1), [0; 0]);
        assert_eq!(modes(&[p, p, p, p]).blockers(2), [0, 1]);
        assert_eq!(modes(&[p, p, p, p]).blockers(3), [2]);
        assert_eq!(modes(&[X, p, p]).blockers(2), [0]);
    }

    #[test]
    fn those_that_share_a_phase_have_one_fencing_token() {
        let r = Mode::Read;
        let joining = line(&[(r, None), (r, None)]);
        assert_eq!(
            (joining.phase(0).token, joining.phase(0).source),
            (10, None)
        );
        assert_eq!(
            (joining.phase(1).token, joining.phase(1).source),
            (10, Some(0))
        );
        // The one that began the phase is gone; whoever joined has its fencing token.
        let later = line(&[(r, Some(7)), (r, None)]);
        assert_eq!((later.phase(0).token, later.phase(0).source), (7, None));
        assert_eq!((later.phase(1).token, later.phase(1).source), (7, Some(0)));
        // Also the first, if it had not come to write when another had.
        let behind = line(&[(r, None), (r, Some(7))]);
        assert_eq!(
            (behind.phase(0).token, behind.phase(0).source),
            (7, Some(1))
        );
        // A newcomer behind them.
        assert_eq!(behind.phase(2).token, 7);
        assert_eq!(joining.phase(2).token, 10);
    }

    #[test]
    fn a_foreign_entry_holds_alone() {
        let kv = KeyValue {
            key: b"lock/n/694d8f2c1a3b5e07".to_vec(),
            created: 5,
            modified: 5,
            value: b"leader at 7".to_vec(),
            lease: 0x694d_8f2c_1a3b_5e07,
        };
        let line = Line::read(&Prefix::default(), NAME, 9, vec![kv.clone()]);
        assert_eq!(line.chance(Mode::Read), Chance::Held);
        let holder = line.first_holder().unwrap();
        assert_eq!(holder.kind, HolderKind::Foreign);
        assert_eq!(holder.token.map(FencingToken::get), Some(5));
        assert_eq!(holder.value, "694d8f2c1a3b5e07");
        assert_eq!(holder.note.as_deref(), Some("leader at 7"));
        assert!(line.entries[0].is_called("694d8f2c1a3b5e07"));
        let data = KeyValue { lease: 0, ..kv };
        assert!(
            Line::read(&Prefix::default(), NAME, 9, vec![data])
                .entries
                .is_empty()
        );
    }
}
