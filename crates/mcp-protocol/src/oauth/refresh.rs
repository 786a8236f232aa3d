//! One refresh of a credential that several processes share.
//!
//! A refresh token may be valid only once: a server that sees it twice may revoke the login. So a refresh is a
//! transaction under the lock of the store: read the stored credential, redeem *its* refresh token, save the result.
//! [`RefreshTransaction`] decides the steps. It sees no tokens, only [`Version`]s of them.
//!
//! | what was found | what follows |
//! |---|---|
//! | another process holds the lock | read the store once per second; use a newer token, or give up after 15 s |
//! | the store has a newer token that can be used | use it, redeem nothing |
//! | the store has no credential, or one of another issuer | log in; nothing is written |
//! | no refresh token | log in; nothing is written |
//! | the server redeemed the token | save the new credential, then use it |
//! | `invalid_grant` | read the store again; if it has another refresh token, redeem that one, once; otherwise delete the credential and log in |
//! | `invalid_client` | log in; nothing is deleted |
//! | no OAuth response | give up; nothing is deleted |
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use mcp_protocol::oauth::refresh::{Loaded, RefreshEnd, RefreshStep, RefreshTransaction, Redeemed, Version};
//!
//! let now = Instant::now();
//! let old = Version(1);
//! let mut refresh = RefreshTransaction::new(old, now);
//! assert_eq!(refresh.poll(), RefreshStep::Lock { timeout: Duration::from_secs(1) });
//! refresh.handle_lock(true, now);
//! assert_eq!(refresh.poll(), RefreshStep::Load);
//! refresh.handle_loaded(Loaded::Credential { version: old, is_usable: false, can_refresh: true });
//! assert_eq!(refresh.poll(), RefreshStep::Redeem);
//! refresh.handle_redeemed(Redeemed::Token);
//! assert_eq!(refresh.poll(), RefreshStep::Save);
//! refresh.handle_saved(true);
//! assert_eq!(refresh.poll(), RefreshStep::End(RefreshEnd::Refreshed { is_saved: true }));
//! ```

use std::time::{Duration, Instant};

/// The longest time for which the lock is waited for.
const LOCK_TIMEOUT: Duration = Duration::from_secs(15);
/// The time between two looks at the store while another process holds the lock.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of refresh tokens that one transaction redeems.
const MAX_REDEEMED: u32 = 2;

/// The version of a stored credential: a number that differs for different tokens, such as a part of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(pub u64);

/// The credential that the store returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// There is none, or it was issued by another issuer or for another resource or client.
    Nothing,
    /// There is one.
    Credential {
        /// Its version.
        version: Version,
        /// True if its access token has not expired and was not refused.
        is_usable: bool,
        /// True if it has a refresh token.
        can_refresh: bool,
    },
    /// The store failed.
    Failed,
}

/// The response of the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redeemed {
    /// A new credential.
    Token,
    /// `invalid_grant`: the refresh token is not valid any more.
    InvalidGrant,
    /// `invalid_client` or `unauthorized_client`: the server does not accept this client.
    InvalidClient,
    /// No response, or not an OAuth response. The refresh token may have been redeemed.
    Unreachable,
}

/// The next step of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshStep {
    /// Take the lock of the credential, and report with [`RefreshTransaction::handle_lock`] whether that succeeded
    /// within this time.
    Lock {
        /// The time to wait for the lock.
        timeout: Duration,
    },
    /// Read the stored credential, and report it with [`RefreshTransaction::handle_loaded`].
    Load,
    /// Redeem the refresh token of the credential that was read last, and report the response with
    /// [`RefreshTransaction::handle_redeemed`].
    Redeem,
    /// Save the new credential, and report with [`RefreshTransaction::handle_saved`] whether that succeeded.
    Save,
    /// Delete the credential that was read last. Report it with [`RefreshTransaction::handle_deleted`].
    Delete,
    /// Release the lock if it is held, and stop.
    End(RefreshEnd),
}

/// The outcome of a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshEnd {
    /// Use the credential that was read last: another process has refreshed it.
    Found,
    /// Use the new credential.
    Refreshed {
        /// False if it could not be saved. Then keep the lock and save it later: until then, the store has a refresh
        /// token that was redeemed.
        is_saved: bool,
    },
    /// A login is needed.
    LogIn(LogInReason),
    /// The token was not refreshed. A later attempt may succeed.
    Unavailable(Obstacle),
}

/// The reason why a login is needed.
///
/// ```
/// use mcp_protocol::oauth::refresh::LogInReason;
///
/// assert_eq!(LogInReason::NoCredential.as_str(), "nobody has logged in");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogInReason {
    /// The store has no credential for this issuer, resource and client.
    NoCredential,
    /// The token cannot be used any more, and there is no refresh token.
    NoRefreshToken,
    /// The authorization server refused the refresh token.
    Refused,
    /// The MCP server refused a new token as well.
    TokenRefused,
    /// The server refused the client.
    ClientRefused,
    /// The MCP server now uses another authorization server.
    IssuerChanged,
    /// The token does not have all scopes that a request needs.
    ScopeMissing,
}

impl LogInReason {
    /// Returns the reason as a clause for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoCredential => "nobody has logged in",
            Self::NoRefreshToken => "the token is not accepted any more and cannot be refreshed",
            Self::Refused => "the authorization server has ended the login",
            Self::TokenRefused => "the server does not accept a new token of this login either",
            Self::ClientRefused => {
                "the authorization server does not accept this client; check the client id and secret"
            }
            Self::IssuerChanged => "the server now uses another authorization server",
            Self::ScopeMissing => "the login does not include all scopes that the request needs",
        }
    }
}

/// The reason why a token could not be refreshed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Another process held the lock for 15 s.
    Locked,
    /// The store failed.
    Store,
    /// The authorization server could not be reached.
    Server,
}

/// The state of one refresh.
#[derive(Clone, Debug)]
pub struct RefreshTransaction {
    /// The version of the token that cannot be used any more.
    old: Version,
    deadline: Instant,
    is_locked: bool,
    /// The version that was read last.
    read: Option<Version>,
    redeemed: u32,
    step: RefreshStep,
}

impl RefreshTransaction {
    /// Creates a transaction that refreshes the token with this version.
    #[must_use]
    pub fn new(old: Version, now: Instant) -> Self {
        Self {
            old,
            deadline: now + LOCK_TIMEOUT,
            is_locked: false,
            read: None,
            redeemed: 0,
            step: RefreshStep::Lock { timeout: LOOK_INTERVAL },
        }
    }

    /// Returns the next step.
    #[must_use]
    pub fn poll(&self) -> RefreshStep {
        self.step
    }

    /// Reports whether the lock was taken. In both cases the store is read next.
    pub fn handle_lock(&mut self, is_locked: bool, now: Instant) {
        self.is_locked = is_locked;
        let is_over = !is_locked && now >= self.deadline;
        self.step = if is_over { unavailable(Obstacle::Locked) } else { RefreshStep::Load };
    }

    /// Reports that the lock cannot be taken, for example because the store cannot be written.
    pub fn handle_lock_failure(&mut self) {
        self.step = unavailable(Obstacle::Store);
    }

    /// Reports the credential that the store returned.
    pub fn handle_loaded(&mut self, loaded: Loaded) {
        let previous = self.read;
        self.step = match loaded {
            Loaded::Credential { version, is_usable: true, .. } if version != self.old => {
                RefreshStep::End(RefreshEnd::Found)
            }
            _ if !self.is_locked => RefreshStep::Lock { timeout: LOOK_INTERVAL },
            Loaded::Failed => unavailable(Obstacle::Store),
            Loaded::Nothing => RefreshStep::End(RefreshEnd::LogIn(LogInReason::NoCredential)),
            Loaded::Credential { can_refresh: false, .. } => {
                RefreshStep::End(RefreshEnd::LogIn(LogInReason::NoRefreshToken))
            }
            // Its refresh token has been refused.
            Loaded::Credential { version, .. } if previous == Some(version) => RefreshStep::Delete,
            Loaded::Credential { .. } if self.redeemed == MAX_REDEEMED => {
                RefreshStep::End(RefreshEnd::LogIn(LogInReason::Refused))
            }
            Loaded::Credential { version, .. } => {
                self.read = Some(version);
                RefreshStep::Redeem
            }
        };
    }

    /// Reports the response of the token endpoint.
    pub fn handle_redeemed(&mut self, redeemed: Redeemed) {
        self.redeemed += 1;
        self.step = match redeemed {
            Redeemed::Token => RefreshStep::Save,
            // A program that does not take the lock may have replaced the credential meanwhile.
            Redeemed::InvalidGrant => RefreshStep::Load,
            Redeemed::InvalidClient => RefreshStep::End(RefreshEnd::LogIn(LogInReason::ClientRefused)),
            Redeemed::Unreachable => unavailable(Obstacle::Server),
        };
    }

    /// Reports whether the new credential was saved.
    pub fn handle_saved(&mut self, is_saved: bool) {
        self.step = RefreshStep::End(RefreshEnd::Refreshed { is_saved });
    }

    /// Reports that the credential was deleted, or that it could not be deleted.
    pub fn handle_deleted(&mut self) {
        self.step = RefreshStep::End(RefreshEnd::LogIn(LogInReason::Refused));
    }
}

const fn unavailable(obstacle: Obstacle) -> RefreshStep {
    RefreshStep::End(RefreshEnd::Unavailable(obstacle))
}

#[cfg(test)]
mod tests;
