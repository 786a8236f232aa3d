//! The status of a login, and the result of a logout.

use std::time::{Duration, SystemTime};

use super::credential::Credential;
use super::error::OAuthError;
use crate::credentials::StoreError;

/// A stored login, as known without a network.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoginStatus {
    /// The issuer of the token.
    pub issuer: String,
    /// The client for which it was issued.
    pub client_id: String,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// The time at which the access token expires, if the issuer named it.
    pub expires_at: Option<SystemTime>,
    /// True if the token can be refreshed without the user.
    pub can_refresh: bool,
    /// The description of the store that has it.
    pub store: String,
    /// False after a login that could not be saved: it is used from memory, and saving is retried while the process
    /// runs.
    pub is_saved: bool,
}

impl LoginStatus {
    pub(super) fn new(credential: &Credential, store: String, is_saved: bool) -> Self {
        let details = &credential.details;
        let expires_at = details.lifetime.and_then(|lifetime| {
            let seconds = details.obtained_at.checked_add(lifetime)?;
            SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
        });
        Self {
            issuer: details.issuer.clone(),
            client_id: details.client_id.clone(),
            scopes: details.scopes.clone(),
            expires_at,
            can_refresh: credential.refresh_token.is_some(),
            store,
            is_saved,
        }
    }
}

/// The result of a logout.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogoutReport {
    /// True if a stored login was deleted.
    pub was_logged_in: bool,
    /// True if the authorization server revoked the token. If false, a token stays valid there until it expires.
    pub is_revoked: bool,
    /// The reason why the token was not revoked, although there was one.
    pub revocation_error: Option<OAuthError>,
    /// The reason why the stored login was not deleted.
    pub store_error: Option<StoreError>,
}
