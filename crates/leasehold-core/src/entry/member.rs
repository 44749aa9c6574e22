//! One that holds a name, and for how long.

use alloc::{string::String, sync::Arc};
use core::time::Duration;

use super::Crowd;
use crate::{FencingToken, Holder, HolderKind, Instant, Mode, Owner, Ttl};

/// One that holds the name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Who holds it.
    pub owner: Owner,
    /// How it is held.
    pub mode: Mode,
    /// The fencing token; all members of an entry have the same.
    pub token: FencingToken,
    /// When it was granted.
    pub granted: Instant,
    /// When it ends if nothing happens: from this instant on it is over.
    pub expires: Instant,
    /// Until when the name stays taken even if the holder releases it or dies; not after
    /// `granted` when there is no minimum hold.
    pub hold_until: Instant,
    /// Given up by its holder, and the minimum hold still runs.
    pub kept: bool,
    /// The session the holder's life hangs on; none when the entry lives by its TTL alone.
    pub session: Option<Arc<str>>,
    /// What the holder had published about itself.
    pub note: Option<String>,
}

/// What has become of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// As it was.
    On,
    /// Its holder is gone and its minimum hold still runs.
    Abandoned,
    /// Ended.
    Over,
}

impl Member {
    /// A holder without a minimum hold, bound to no session.
    #[must_use]
    pub const fn new(
        owner: Owner,
        mode: Mode,
        token: FencingToken,
        granted: Instant,
        expires: Instant,
    ) -> Self {
        Self {
            owner,
            mode,
            token,
            granted,
            expires,
            hold_until: granted,
            kept: false,
            session: None,
            note: None,
        }
    }

    pub(super) fn life(&self, now: Instant, crowd: &mut dyn Crowd) -> Life {
        let mut is_gone = || self.session.as_deref().is_some_and(|it| crowd.is_gone(it));
        if now >= self.expires {
            Life::Over
        } else if self.kept || !is_gone() {
            Life::On
        } else if now < self.hold_until {
            Life::Abandoned
        } else {
            Life::Over
        }
    }

    /// The holder has given up; the name stays taken until `until`.
    pub(super) fn keep(&mut self, until: Instant) {
        self.kept = true;
        self.expires = until;
        self.hold_until = until;
        self.session = None;
        self.note = None;
    }

    pub(super) fn lengthen(&mut self, now: Instant, ttl: Ttl) {
        self.expires = self.expires.max(now.after(ttl.get()));
    }

    /// The member as people are shown it.
    pub(super) fn describe(&self, now: Instant) -> Holder {
        let remaining = self.expires - now;
        let mut holder = Holder::new(&self.owner, self.mode, self.token, remaining);
        holder.held_for = Some(now - self.granted);
        holder.note.clone_from(&self.note);
        if self.kept {
            holder.kind = HolderKind::Kept;
        }
        holder
    }
}

/// The TTL that is set at a grant: if the holder dies at once, its minimum hold is still kept.
pub(super) fn first_ttl(ttl: Ttl, min_hold: Option<Duration>) -> Ttl {
    min_hold.map_or(ttl, |hold| ttl.max(Ttl::clamped(hold)))
}

/// Until when a minimum hold that began at `granted` runs.
pub(super) fn end_of_hold(granted: Instant, min_hold: Option<Duration>) -> Instant {
    min_hold.map_or(granted, |hold| granted.after(hold.min(Ttl::MAX.get())))
}
