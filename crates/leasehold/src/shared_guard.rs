use std::{ops::Deref, sync::Arc};

use crate::{error::Result, guard::Guard};

/// A lock that several tasks of one process hold together: a [`Guard`] that can be cloned.
///
/// It stands in for re-entrancy. Code that needs the lock takes a `&Guard` or a clone of this, and
/// the types show that it is held; who the holder is does not hang on a thread, which in an async
/// program is nobody in particular. The lock is released when the last clone is gone.
#[derive(Clone, Debug)]
#[must_use = "if unused, the lock is released at once"]
pub struct SharedGuard(Arc<Guard>);

impl SharedGuard {
    pub(crate) fn new(guard: Guard) -> Self {
        Self(Arc::new(guard))
    }

    /// Releases the lock if this is the last clone, and waits for the store's answer; else gives up
    /// this clone only and answers at once.
    ///
    /// # Errors
    ///
    /// As [`Guard::release`], for the last clone.
    ///
    /// # Cancel safety
    ///
    /// Safe: the release goes on in the background.
    pub async fn release(self) -> Result<()> {
        match Arc::into_inner(self.0) {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
    }
}

impl Deref for SharedGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}
