//! Protecting a server: who may call it, and with which scopes. The server is an OAuth 2.1 resource server: it verifies
//! tokens, which an authorization server issues.
//!
//! ```
//! use mcp_server::auth::{Jwks, JwtVerifier, ProtectedResource};
//! use mcp_server::http::HttpOptions;
//!
//! # #[cfg(feature = "jwt")]
//! # fn example(keys: Jwks) {
//! let verifier = JwtVerifier::with_keys("https://auth.example.com", keys);
//! let notes = ProtectedResource::new("https://notes.example.com/mcp", verifier).scopes(["notes:read"]);
//! let options = HttpOptions::default().protect(notes);
//! # }
//! ```
//!
//! Spec: MCP 2026-07-28, basic/authorization; RFC 6750, RFC 9728.

#[cfg(feature = "jwt")]
mod jwt;
mod resource;
mod scope_rules;
mod verifier;

#[cfg(feature = "jwt")]
#[cfg_attr(docsrs, doc(cfg(feature = "jwt")))]
pub use jwt::{InvalidKeys, Jwks, JwtAlgorithm, JwtVerifier};
pub use resource::ProtectedResource;
pub use verifier::{Rejection, Verifier};

pub(crate) use scope_rules::ScopeRules;
