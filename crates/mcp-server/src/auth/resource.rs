//! What a protected server is called, whose tokens it accepts, and which scopes it needs.

use std::fmt;
use std::sync::Arc;

use mcp_protocol::oauth::scopes::{Scopes, is_scope};
use mcp_protocol::oauth::well_known;

use super::verifier::Verifier;

/// The protection of a server: its URL, whose tokens it accepts, and which scopes they need.
///
/// Given to [`HttpOptions::protect`](crate::http::HttpOptions::protect). Every request then needs a token that was issued
/// for this server. A request without a valid token gets status 401, one without the needed scopes 403, both with a
/// challenge from which clients learn where and for what to log in.
#[derive(Clone)]
#[doc(alias = "OAuth")]
#[doc(alias = "RFC 9728")]
pub struct ProtectedResource {
    pub(crate) resource: String,
    pub(crate) verifier: Arc<dyn Verifier>,
    pub(crate) scopes: Vec<String>,
    pub(crate) includes: Vec<(String, Scopes)>,
    pub(crate) name: Option<String>,
}

impl ProtectedResource {
    /// Protects the server whose clients use this URL. Tokens must be issued for exactly this text.
    pub fn new(url: impl Into<String>, verifier: impl Verifier) -> Self {
        Self {
            resource: url.into(),
            verifier: Arc::new(verifier),
            scopes: Vec::new(),
            includes: Vec::new(),
            name: None,
        }
    }

    /// Sets the scopes that every request needs. A tool can need more: see
    /// [`Tool::requires_scopes`](crate::Tool::requires_scopes).
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Declares that a scope includes others: whoever has `scope` needs none of `included`.
    #[must_use]
    pub fn scope_includes<S: AsRef<str>>(
        mut self,
        scope: impl Into<String>,
        included: impl IntoIterator<Item = S>,
    ) -> Self {
        self.includes.push((scope.into(), included.into_iter().collect()));
        self
    }

    /// Sets the name of the server that people see when they log in.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns the host of the URL with its port, if it has one.
    pub(crate) fn host(&self) -> Option<&str> {
        let (origin, _) = well_known::split(&self.resource)?;
        origin.split_once("://").map(|(_, host)| host)
    }

    /// Returns the problems of this configuration, one sentence each.
    pub(crate) fn problems(&self) -> Vec<String> {
        let url = &self.resource;
        let mut problems = Vec::new();
        match well_known::split(url) {
            None => problems.push(format!(
                "`{url}` cannot be the URL of a protected server: it must begin with https:// and have no query or fragment"
            )),
            Some((origin, _)) if !is_secure(origin) => problems.push(format!(
                "the URL of a protected server must begin with https://, or its host must be a loopback name: `{url}`"
            )),
            Some(_) => {}
        }
        if self.verifier.issuers().is_empty() {
            problems
                .push("the verifier names no issuer, so clients cannot find out where to log in".to_owned());
        }
        for scope in self.scopes.iter().filter(|scope| !is_scope(scope)) {
            problems.push(format!(
                "`{scope}` is not a scope: use visible ASCII characters without quotation marks"
            ));
        }
        if self.scopes.iter().any(|scope| scope == "offline_access") {
            problems.push(
                "`offline_access` is not a scope of a server: clients that want a refresh token ask for it themselves"
                    .to_owned(),
            );
        }
        problems
    }
}

/// Returns true if nobody can listen on the way to this origin.
fn is_secure(origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    };
    scheme.eq_ignore_ascii_case("https") || matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

impl fmt::Debug for ProtectedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtectedResource")
            .field("resource", &self.resource)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::async_trait;
    use crate::auth::Rejection;
    use crate::call::identity::Principal;

    struct Issuers(&'static [&'static str]);

    #[async_trait]
    impl Verifier for Issuers {
        fn issuers(&self) -> Vec<String> {
            self.0.iter().map(|issuer| (*issuer).to_owned()).collect()
        }

        async fn verify(&self, _: &str, _: &str) -> Result<Principal, Rejection> {
            Err(Rejection::Invalid("no".to_owned()))
        }
    }

    #[test]
    fn problems_are_found_before_the_server_starts() {
        let of = |url: &str| ProtectedResource::new(url, Issuers(&["https://as"]));
        for url in
            ["https://h/mcp", "https://h", "http://localhost:1/mcp", "http://127.0.0.1", "http://[::1]:8/mcp"]
        {
            assert_eq!(of(url).problems(), [""; 0], "{url}");
        }
        for url in ["h/mcp", "https://h/mcp?x", "ftp://h"] {
            assert!(of(url).problems()[0].contains("cannot be the URL"), "{url}");
        }
        for url in
            ["http://h/mcp", "http://localhost.evil/mcp", "http://127.0.0.1.evil:1/mcp", "http://[::2]/mcp"]
        {
            assert!(of(url).problems()[0].contains("must begin with https://, or"), "{url}");
        }
        assert!(ProtectedResource::new("https://h", Issuers(&[])).problems()[0].contains("names no issuer"));
        let scopes = of("https://h").scopes(["ok", "a b", "offline_access"]).problems();
        assert_eq!(scopes.len(), 2, "{scopes:?}");
        assert!(scopes[0].starts_with("`a b` is not a scope") && scopes[1].contains("offline_access"));
    }

    #[test]
    fn host_is_that_of_the_url() {
        for (url, host) in [("https://h:8443/mcp", Some("h:8443")), ("https://h", Some("h")), ("h", None)] {
            assert_eq!(ProtectedResource::new(url, Issuers(&[])).host(), host, "{url}");
        }
    }
}
