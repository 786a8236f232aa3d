//! Access tokens.

use std::sync::Arc;

use http::HeaderValue;
use mcp_protocol::oauth::refresh::Version;
use zeroize::Zeroizing;

use super::credential::Credential;
use super::dpop::Prover;
use crate::credentials::Secret;

/// An access token. Clones are cheap.
#[derive(Clone, Debug)]
pub struct Token {
    content: Arc<TokenContent>,
}

#[derive(Debug)]
struct TokenContent {
    access_token: Secret,
    version: Version,
    /// The header `Authorization`. `None` if the token has characters that are not allowed in a header, or if its key
    /// cannot be used.
    header: Option<HeaderValue>,
    /// The key to which the token is bound.
    prover: Option<Prover>,
}

impl Token {
    fn new(credential: &Credential) -> Self {
        let access_token = credential.access_token.clone();
        let prover = credential.bound_key.as_ref().and_then(|key| Prover::from_stored(key).ok());
        let scheme = if prover.is_some() { "DPoP" } else { "Bearer" };
        let text = Zeroizing::new(format!("{scheme} {}", access_token.expose()));
        // Without its key, a bound token is of no use.
        let is_usable = prover.is_some() || credential.bound_key.is_none();
        let mut header = HeaderValue::from_str(&text).ok().filter(|_| is_usable);
        if let Some(header) = &mut header {
            header.set_sensitive(true);
        }
        let version = credential.version();
        Self { content: Arc::new(TokenContent { access_token, version, header, prover }) }
    }

    pub(crate) fn version(&self) -> Version {
        self.content.version
    }

    pub(super) fn prover(&self) -> Option<&Prover> {
        self.content.prover.as_ref()
    }

    pub(super) fn header(&self) -> Option<&HeaderValue> {
        self.content.header.as_ref()
    }

    /// Returns the access token, for the header `Authorization: Bearer …`.
    #[must_use]
    pub fn access_token(&self) -> &Secret {
        &self.content.access_token
    }
}

/// A credential in use, and its token.
pub(super) struct CurrentCredential {
    pub(super) credential: Credential,
    pub(super) token: Token,
}

impl CurrentCredential {
    pub(super) fn new(credential: Credential) -> Self {
        Self { token: Token::new(&credential), credential }
    }
}
