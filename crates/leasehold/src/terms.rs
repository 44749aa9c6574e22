//! What every way of holding has in common: the name, and how the lease is to live.

use std::{sync::Arc, time::Duration};

use leasehold_core::{Label, Mode, Name, Ttl, lease::Renew};

use crate::{
    client::Client,
    driver::acquire::{self, Ask, Patience},
    error::{Error, ErrorKind, Result},
    guard::Guard,
};

/// Who asks for a lock, and on what terms.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) client: Client,
    pub(crate) name: String,
    pub(crate) ttl: Option<Duration>,
    pub(crate) renew: Option<Renew>,
    pub(crate) label: Option<String>,
    pub(crate) min_hold: Option<Duration>,
}

impl Terms {
    pub(crate) const fn new(client: Client, name: String) -> Self {
        Self {
            client,
            name,
            ttl: None,
            renew: None,
            label: None,
            min_hold: None,
        }
    }

    /// Takes the lock, waiting its turn.
    pub(crate) async fn wait(&self, mode: Mode, patience: Patience) -> Result<Guard> {
        let nothing = || {
            Error::new(
                ErrorKind::Protocol,
                "the store left a waiter without an answer",
            )
        };
        self.take(mode, patience).await?.ok_or_else(nothing)
    }

    /// Takes the lock; `None` when it is held and `patience` is to try only.
    pub(crate) async fn take(&self, mode: Mode, patience: Patience) -> Result<Option<Guard>> {
        let ask = self.ask(mode)?;
        let driver = self.client.driver();
        let held = acquire::acquire(driver, &ask, patience).await?;
        Ok(held.map(|held| Guard::new(Arc::clone(driver), held)))
    }

    /// Checks what was asked for, before anything is sent.
    pub(crate) fn ask(&self, mode: Mode) -> Result<Ask> {
        let defaults = self.client.defaults();
        let name = Name::new(self.name.as_str())?;
        let named = |error: Error| error.with_lock_name(name.as_str());
        let ttl = self
            .ttl
            .map_or(Ok(defaults.ttl), Ttl::new)
            .map_err(|error| named(error.into()))?;
        let label = self
            .label
            .as_deref()
            .map_or_else(|| Ok(defaults.label.clone()), Label::new);
        if self.min_hold.is_some_and(|span| span > Ttl::MAX.get()) {
            let reason = "a minimum hold is at most 24 h";
            return Err(named(Error::new(ErrorKind::Invalid, reason)));
        }
        let renew = self.renew.unwrap_or(defaults.renew);
        if matches!(renew, Renew::AtMost(span) if span < Ttl::MIN.get()) {
            let reason = "a lease is capped at 100 ms at least";
            return Err(named(Error::new(ErrorKind::Invalid, reason)));
        }
        Ok(Ask {
            mode,
            ttl,
            renew,
            min_hold: self.min_hold.filter(|span| !span.is_zero()),
            label: label.map_err(|error| named(error.into()))?,
            name,
        })
    }
}

/// The settings that every way of holding has, in the same words.
macro_rules! terms {
    ($kind:ty) => {
        terms!(settings $kind);

        impl $kind {
            /// The name, as given.
            #[must_use]
            pub fn name(&self) -> &str {
                &self.terms.name
            }

            /// Who holds the name and who waits for it.
            ///
            /// # Errors
            ///
            /// As [`Client::inspect`](crate::Client::inspect).
            ///
            /// # Cancel safety
            ///
            /// Safe: it changes nothing.
            pub async fn inspect(&self) -> crate::Result<leasehold_core::Status> {
                self.terms.client.inspect(&self.terms.name).await
            }
        }
    };
    (settings $kind:ty) => {
        impl $kind {
            /// How long the lease lives in the store when nobody renews it: 100 ms to 24 h, a
            /// fraction of a millisecond rounded up. Default: the client's, 30 s.
            ///
            /// It bounds how long others wait for a holder that died, and how long an outage of the
            /// store may last before the lock is lost.
            pub const fn with_ttl(mut self, ttl: std::time::Duration) -> Self {
                self.terms.ttl = Some(ttl);
                self
            }

            /// How the lease is renewed. Default: the client's, until released.
            pub const fn with_renew(mut self, renew: leasehold_core::lease::Renew) -> Self {
                self.terms.renew = Some(renew);
                self
            }

            /// Words about the holder for people to read; at most 200 bytes. Default: the client's.
            pub fn with_label(mut self, label: impl Into<String>) -> Self {
                self.terms.label = Some(label.into());
                self
            }
        }
    };
}
pub(crate) use terms;
