//! The sender of a request: the user, if the program authenticates users, and the extensions of the HTTP request.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use mcp_protocol::Json;
use mcp_protocol::oauth::scopes::Scopes;
use serde::de::DeserializeOwned;

/// The longest time that is waited before the clock is read again.
#[cfg(feature = "http")]
const MAX_WAIT: std::time::Duration = std::time::Duration::from_secs(60);

/// The user on whose behalf a call is made. Anonymous unless the server is
/// [protected](crate::http::HttpOptions::protect), or the program that contains it authenticates its users.
///
/// Over HTTP, the principal comes from the verified token, or a middleware in front of the service inserts it into the
/// extensions of the request. A legacy session belongs to the principal that opened it: for other principals, the
/// response is status 404. The `requestState` of a call belongs to the principal that made the call: for other
/// principals, the response is the error -32602.
///
/// Two principals are the same if they have the same issuer and the same subject. Scopes and claims may differ.
///
/// Cheap to clone. It never contains the token.
#[doc(alias = "user")]
#[doc(alias = "authentication")]
#[derive(Clone, Default)]
pub struct Principal(Option<Arc<Caller>>);

#[derive(Clone)]
struct Caller {
    kind: CallerKind,
    name: Arc<str>,
    issuer: Option<Arc<str>>,
    client_id: Option<Arc<str>>,
    scopes: Scopes,
    claims: Option<Json>,
    expires_at: Option<SystemTime>,
    /// What sessions and sealed state are bound to.
    binding: Arc<str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CallerKind {
    User,
    Client,
}

impl Principal {
    /// Creates a principal with this subject, which must be different for each user of the server.
    ///
    /// ```
    /// let principal = mcp_server::Principal::new("alice@example.com");
    /// assert_eq!(principal.subject(), Some("alice@example.com"));
    /// ```
    #[must_use]
    pub fn new(subject: impl Into<Arc<str>>) -> Self {
        Self::of(CallerKind::User, subject.into())
    }

    /// Creates the principal of a program that acts for no user, such as a service with client credentials.
    #[must_use]
    pub fn client(client_id: impl Into<Arc<str>>) -> Self {
        let name = client_id.into();
        let mut principal = Self::of(CallerKind::Client, Arc::clone(&name));
        principal.change(|caller| caller.client_id = Some(name));
        principal
    }

    fn of(kind: CallerKind, name: Arc<str>) -> Self {
        let mut caller = Caller {
            kind,
            name,
            issuer: None,
            client_id: None,
            scopes: Scopes::new(),
            claims: None,
            expires_at: None,
            binding: Arc::from(""),
        };
        caller.bind();
        Self(Some(Arc::new(caller)))
    }

    /// Sets the issuer, for servers that accept tokens of several issuers.
    #[must_use]
    pub fn with_issuer(mut self, issuer: impl Into<Arc<str>>) -> Self {
        self.change(|caller| {
            caller.issuer = Some(issuer.into());
            caller.bind();
        });
        self
    }

    /// Sets the program through which the user calls (`client_id`).
    #[must_use]
    pub fn with_client_id(mut self, client_id: impl Into<Arc<str>>) -> Self {
        self.change(|caller| caller.client_id = Some(client_id.into()));
        self
    }

    /// Sets what the user granted to the program. Texts that cannot be scopes are skipped.
    #[must_use]
    pub fn with_scopes<S: AsRef<str>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.change(|caller| caller.scopes = scopes.into_iter().collect());
        self
    }

    /// Sets the claims of the token, for the tools.
    #[must_use]
    pub fn with_claims(mut self, claims: impl Into<Json>) -> Self {
        self.change(|caller| caller.claims = Some(claims.into()));
        self
    }

    /// Sets the time at which the permission ends. Subscription streams are then ended.
    #[must_use]
    pub fn with_expiry(mut self, time: SystemTime) -> Self {
        self.change(|caller| caller.expires_at = Some(time));
        self
    }

    /// Returns true if the caller is not known.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the name of the user, such as the subject (`sub`) of a token; `None` if the caller is anonymous or a
    /// program that acts for no user.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.0.as_ref().filter(|caller| caller.kind == CallerKind::User).map(|caller| &*caller.name)
    }

    /// Returns who vouches for the caller (`iss`).
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.0.as_ref()?.issuer.as_deref()
    }

    /// Returns the program through which the user calls (`client_id`).
    #[must_use]
    pub fn client_id(&self) -> Option<&str> {
        self.0.as_ref()?.client_id.as_deref()
    }

    /// Returns what the user granted to the program.
    #[must_use]
    pub fn scopes(&self) -> &Scopes {
        static NONE: Scopes = Scopes::new();
        self.0.as_ref().map_or(&NONE, |caller| &caller.scopes)
    }

    /// Returns one claim of the token; `None` if it is absent or of another type.
    ///
    /// ```
    /// # let claims: mcp_server::Json = r#"{"email":"ada@example.com"}"#.parse().unwrap();
    /// # let principal = mcp_server::Principal::new("ada").with_claims(claims);
    /// let email: Option<String> = principal.claim("email");
    /// assert_eq!(email.as_deref(), Some("ada@example.com"));
    /// ```
    #[must_use]
    pub fn claim<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let claim = self.0.as_ref()?.claims.as_ref()?.member(name)?;
        serde_json::from_str(claim).ok()
    }

    /// Returns the time at which the permission ends, if it is known.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.0.as_ref()?.expires_at
    }

    /// Returns what sessions and sealed state are bound to; `None` for anonymous callers. It is different for each
    /// issuer and subject.
    #[must_use]
    pub fn binding(&self) -> Option<&Arc<str>> {
        self.0.as_ref().map(|caller| &caller.binding)
    }

    /// Returns true if both are the same caller: they have the same issuer and subject, or are both anonymous.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.binding() == other.binding()
    }

    /// Waits until the permission ends; forever if that is not known.
    #[cfg(feature = "http")]
    pub(crate) async fn expired(&self) {
        let Some(time) = self.expires_at() else { return std::future::pending().await };
        // The clock may be changed meanwhile, so it is read again.
        while let Ok(left) = time.duration_since(SystemTime::now()).map(|left| left.min(MAX_WAIT))
            && !left.is_zero()
        {
            tokio::time::sleep(left).await;
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut Caller)) {
        if let Some(caller) = &mut self.0 {
            change(Arc::make_mut(caller));
        }
    }
}

impl Caller {
    fn bind(&mut self) {
        let kind = if self.kind == CallerKind::User { "user" } else { "client" };
        let issuer = self.issuer.as_deref().unwrap_or_default();
        // The length separates issuer and name, whatever they contain.
        self.binding = format!("{kind} {}:{issuer}{}", issuer.len(), self.name).into();
    }
}

/// Writes the subject, or the program if it acts for no user, or `anonymous`.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_ref().map_or("anonymous", |caller| &caller.name))
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(caller) = &self.0 else { return f.write_str("Principal(anonymous)") };
        f.debug_struct("Principal")
            .field("subject", &self.subject())
            .field("issuer", &caller.issuer)
            .field("client_id", &caller.client_id)
            .field("scopes", &caller.scopes)
            .finish_non_exhaustive()
    }
}

/// The identity of the sender of a request.
#[derive(Clone, Default)]
pub(crate) struct Identity {
    pub(crate) principal: Principal,
    /// The extensions of the HTTP request; `None` if there are none.
    #[cfg(feature = "http")]
    extensions: Option<Arc<::http::Extensions>>,
    /// The rules for scopes; `None` if scopes are not checked, as on stdio.
    #[cfg(feature = "http")]
    scope_rules: Option<Arc<crate::auth::ScopeRules>>,
}

impl Identity {
    /// Creates the identity of a caller whose scopes are not checked here.
    pub(crate) fn of(principal: Principal) -> Self {
        Self {
            principal,
            #[cfg(feature = "http")]
            extensions: None,
            #[cfg(feature = "http")]
            scope_rules: None,
        }
    }
}

#[cfg(feature = "http")]
impl Identity {
    /// Takes the extensions out of an HTTP request, and the principal from them.
    pub(crate) fn take(extensions: &mut ::http::Extensions, rules: &Arc<crate::auth::ScopeRules>) -> Self {
        let scope_rules = Some(Arc::clone(rules));
        if extensions.is_empty() {
            return Self { scope_rules, ..Self::default() };
        }
        let principal = extensions.get::<Principal>().cloned().unwrap_or_default();
        Self { principal, extensions: Some(Arc::new(std::mem::take(extensions))), scope_rules }
    }

    /// Checks that the caller has the scopes of the server and these.
    ///
    /// # Errors
    /// Fails with all scopes that the request needs.
    pub(crate) fn check_scopes(&self, scopes: &Scopes) -> Result<(), Scopes> {
        match &self.scope_rules {
            Some(rules) if !scopes.is_empty() => rules.check(self.principal.scopes(), scopes),
            _ => Ok(()),
        }
    }

    /// Returns the extensions of the HTTP request; empty for other transports.
    pub(crate) fn extensions(&self) -> &::http::Extensions {
        static EMPTY: std::sync::LazyLock<::http::Extensions> =
            std::sync::LazyLock::new(::http::Extensions::new);
        self.extensions.as_deref().unwrap_or(&EMPTY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_the_same_if_issuer_and_name_are() {
        let same = |one: &Principal, other: &Principal| one.is_same(other);
        let ada = Principal::new("ada").with_issuer("https://a");
        assert!(same(&ada, &ada.clone().with_scopes(["x"]).with_client_id("cli")));
        assert!(same(&Principal::default(), &Principal::default()));
        for other in [
            Principal::default(),
            Principal::new("ada"),
            Principal::new("eve").with_issuer("https://a"),
            Principal::new("ada").with_issuer("https://b"),
            Principal::client("ada").with_issuer("https://a"),
            // The border between issuer and name cannot be moved.
            Principal::new("aada").with_issuer("https://"),
            Principal::new("https://aada"),
        ] {
            assert!(!same(&ada, &other), "{other:?}");
        }
    }

    #[test]
    fn principal_says_who_it_is() {
        let claims: Json = r#"{"email":"ada@x","level":3}"#.parse().unwrap();
        let ada =
            Principal::new("ada").with_client_id("cli").with_scopes(["a", "b c", "d"]).with_claims(claims);
        assert_eq!((ada.subject(), ada.client_id(), ada.issuer()), (Some("ada"), Some("cli"), None));
        assert_eq!((ada.scopes().to_string(), ada.to_string()), ("a d".to_owned(), "ada".to_owned()));
        assert_eq!((ada.claim("email"), ada.claim("level")), (Some("ada@x".to_owned()), Some(3)));
        assert_eq!((ada.claim::<u8>("email"), ada.claim::<u8>("absent")), (None, None));
        let service = Principal::client("bot");
        assert_eq!(
            (service.subject(), service.client_id(), service.to_string()),
            (None, Some("bot"), "bot".to_owned())
        );
        let nobody = Principal::default().with_scopes(["a"]).with_client_id("x");
        assert!(nobody.is_anonymous() && !ada.is_anonymous() && nobody.scopes().is_empty());
        assert_eq!((nobody.to_string().as_str(), nobody.binding()), ("anonymous", None));
        let shown = format!("{ada:?} {nobody:?}");
        assert!(shown.contains("cli") && !shown.contains("ada@x"), "{shown}");
    }
}
