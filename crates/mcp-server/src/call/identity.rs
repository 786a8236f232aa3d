//! The sender of a request: the user, if the program authenticates users, and the extensions of the HTTP request.

use std::sync::Arc;

/// The user on whose behalf a call is made. Anonymous unless the program that contains the server authenticates its
/// users.
///
/// Over HTTP, a middleware in front of the service inserts the principal into the extensions of the request. A legacy
/// session belongs to the principal that opened it: for other principals, the response is status 404. The
/// `requestState` of a call belongs to the principal that made the call: for other principals, the response is the
/// error -32602.
#[doc(alias = "user")]
#[doc(alias = "authentication")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Principal {
    /// The name of the user, such as the subject (`sub`) of a token; `None` if anonymous.
    pub subject: Option<Arc<str>>,
}

impl Principal {
    /// Creates a principal with this subject, which must be different for each user of the server.
    ///
    /// ```
    /// let principal = mcp_server::Principal::new("alice@example.com");
    /// assert_eq!(principal.subject.as_deref(), Some("alice@example.com"));
    /// ```
    #[must_use]
    pub fn new(subject: impl Into<Arc<str>>) -> Self {
        Self { subject: Some(subject.into()) }
    }
}

/// The identity of the sender of a request.
#[derive(Clone, Default)]
pub(crate) struct Identity {
    pub(crate) principal: Principal,
    /// The extensions of the HTTP request; `None` if there are none.
    #[cfg(feature = "http")]
    extensions: Option<Arc<::http::Extensions>>,
}

#[cfg(feature = "http")]
impl Identity {
    /// Takes the extensions out of an HTTP request, and the principal from them.
    pub(crate) fn take(extensions: &mut ::http::Extensions) -> Self {
        if extensions.is_empty() {
            return Self::default();
        }
        let principal = extensions.get::<Principal>().cloned().unwrap_or_default();
        Self { principal, extensions: Some(Arc::new(std::mem::take(extensions))) }
    }

    /// Returns the extensions of the HTTP request; empty for other transports.
    pub(crate) fn extensions(&self) -> &::http::Extensions {
        static EMPTY: std::sync::LazyLock<::http::Extensions> =
            std::sync::LazyLock::new(::http::Extensions::new);
        self.extensions.as_deref().unwrap_or(&EMPTY)
    }
}
