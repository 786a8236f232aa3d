//! The events of credentials.

use std::fmt;
use std::sync::Arc;

use crate::credentials::StoreError;

/// Something that happened to a credential. See [`Credentials::on_event`](super::Credentials::on_event).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CredentialEvent {
    /// A refreshed token could not be saved. It is used from memory, and saving is tried again. If the process exits
    /// before that succeeds, the login is lost.
    #[non_exhaustive]
    NotSaved {
        /// The server, as prompts name it.
        server: String,
        /// The reason.
        error: StoreError,
    },
    /// The token that could not be saved is saved now.
    #[non_exhaustive]
    Saved {
        /// The server.
        server: String,
    },
    /// The token that could not be saved is lost, because nothing uses it any more. A new login is needed.
    #[non_exhaustive]
    Lost {
        /// The server.
        server: String,
    },
    /// A program that was started with a token runs, and a newer token exists.
    #[non_exhaustive]
    Outdated {
        /// The command line of the program.
        server: String,
    },
}

/// The function that is called with each event.
#[derive(Clone, Default)]
pub(super) struct EventHandler(Option<Arc<dyn Fn(CredentialEvent) + Send + Sync>>);

impl EventHandler {
    pub(super) fn new(handler: impl Fn(CredentialEvent) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(handler)))
    }

    pub(super) fn handle(&self, event: CredentialEvent) {
        if let Some(handler) = &self.0 {
            handler(event);
        }
    }
}

impl fmt::Debug for EventHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventHandler")
    }
}
