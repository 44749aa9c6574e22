//! Notes about holders, of which a node that was away may have an old one.
//!
//! So each has a stamp in front, which grows with each note of a holder: the greatest is its last.

use std::sync::Arc;

use leasehold_core::Holder;

/// How many digits a stamp has: microseconds since 1970 until the year 2286.
const DIGITS: usize = 16;

/// The note as nodes keep it.
pub(super) fn stamped(stamp: u64, note: &str) -> Arc<str> {
    format!("{stamp:0DIGITS$}{note}").into()
}

/// The last note of one holder among those that nodes have.
pub(super) fn last(named: &[&Holder]) -> Option<String> {
    let notes = named.iter().filter_map(|holder| holder.note.as_deref());
    notes.max().map(|note| plain(note).to_owned())
}

/// The note as its holder wrote it.
pub(super) fn plain(note: &str) -> &str {
    note.get(DIGITS..).unwrap_or_default()
}
