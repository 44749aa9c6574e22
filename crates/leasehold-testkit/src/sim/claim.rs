//! What a worker holds.

use std::ops::Deref;

use leasehold::{Error, Guard, Leadership};

/// A guard, or a leadership with the guard inside.
pub(super) enum Claim {
    Lock(Guard),
    Lead(Leadership),
}

impl Deref for Claim {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        match self {
            Self::Lock(guard) => guard,
            Self::Lead(leadership) => leadership.guard(),
        }
    }
}

impl Claim {
    pub(super) async fn release(self) -> Result<(), Error> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Lead(leadership) => leadership.resign().await,
        }
    }
}
