//! The token with which a program was started.

use std::sync::Weak;
use std::time::Duration;

use mcp_protocol::oauth::refresh::Version;

use crate::connection::Connection;
use crate::oauth::{ConnectionLogin, Token};

/// The pause between two checks whether a call is in flight.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The token with which a program was started.
#[derive(Clone, Debug)]
pub(crate) struct ProgramToken {
    login: ConnectionLogin,
    version: Version,
    /// True if the program is restarted when there is a newer token.
    restarts: bool,
}

impl ProgramToken {
    pub(crate) fn new(login: ConnectionLogin, token: &Token, restarts: bool) -> Self {
        Self { login, version: token.version(), restarts }
    }

    /// Waits until there is a newer token. Then ends the connection between two calls, so that the next call restarts
    /// the program; or only reports it.
    pub(crate) async fn watch(self, connection: Weak<Connection>) {
        loop {
            tokio::time::sleep(self.login.check_interval()).await;
            // A program that has ended receives the current token when it is restarted.
            if connection.upgrade().is_none_or(|connection| connection.ended().is_some()) {
                return;
            }
            if self.login.token().await.is_ok_and(|token| token.version() != self.version) {
                break;
            }
        }
        if !self.restarts {
            return self.login.report_outdated();
        }
        while connection.upgrade().is_some_and(|connection| !connection.end_for_new_token()) {
            tokio::time::sleep(IDLE_CHECK_INTERVAL).await;
        }
    }
}
