//! Permits as slots: what must hold, and what must be found.

use super::{Effort, Report, explore};
use crate::slots::{LIMIT, Slots};

/// The design, which must hold, as far as `effort` allows.
pub fn hold(effort: Effort) -> Vec<Report> {
    let model = Slots { counts_any: false };
    vec![explore("slots: three want two permits", model, &[], effort)]
}

/// Permits that each node counts for itself: found out.
pub fn found_broken(effort: Effort) -> Vec<Report> {
    let model = Slots { counts_any: true };
    let effort = effort.max(Effort::Full);
    vec![explore("each node counts", model, &[LIMIT], effort)]
}
