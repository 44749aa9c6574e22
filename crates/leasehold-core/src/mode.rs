use core::fmt;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// By one owner alone. `lock(n)` and `rw_lock(n).write()` are the same.
    Exclusive,
    /// Together with other readers.
    Read,
    /// As `weight` of `limit` permits.
    Permit {
        /// How many permits there are in all.
        limit: u32,
        /// How many of them this holder takes.
        weight: u32,
    },
}

impl Mode {
    /// The most permits a semaphore may have.
    pub const MAX_PERMITS: u32 = 1_000_000;

    /// `weight` of `limit` permits.
    ///
    /// # Errors
    ///
    /// `limit` is zero or above [`Mode::MAX_PERMITS`], or `weight` is zero or above `limit`.
    pub const fn permits(limit: u32, weight: u32) -> Result<Self, ModeError> {
        if limit == 0 || limit > Self::MAX_PERMITS || weight == 0 || weight > limit {
            return Err(ModeError { limit, weight });
        }
        Ok(Self::Permit { limit, weight })
    }

    /// Whether others may hold at the same time.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        !matches!(self, Self::Exclusive)
    }

    /// How many holders a shared phase of this mode has room for; zero for no limit.
    #[must_use]
    pub const fn limit(self) -> u32 {
        match self {
            Self::Exclusive => 1,
            Self::Read => 0,
            Self::Permit { limit, .. } => limit,
        }
    }

    /// How much of the limit one holder takes.
    #[must_use]
    pub const fn weight(self) -> u32 {
        match self {
            Self::Permit { weight, .. } => weight,
            Self::Exclusive | Self::Read => 1,
        }
    }

    /// Whether a holder of this mode may share a phase with one of `other`: both read, or both
    /// take permits of the same limit.
    #[must_use]
    pub const fn joins(self, other: Self) -> bool {
        match (self, other) {
            (Self::Read, Self::Read) => true,
            (Self::Permit { limit: a, .. }, Self::Permit { limit: b, .. }) => a == b,
            _ => false,
        }
    }
}

/// A number of permits that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeError {
    limit: u32,
    weight: u32,
}

impl fmt::Display for ModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, weight } = self;
        write!(
            f,
            "{weight} of {limit} permits is not possible: a semaphore has 1 to 1000000"
        )?;
        write!(
            f,
            " permits, and a holder takes at least one and at most all of them"
        )
    }
}

impl core::error::Error for ModeError {}
