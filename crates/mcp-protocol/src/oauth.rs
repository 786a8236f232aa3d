//! Decisions of OAuth, without I/O. For clients: how a user logs in, when a device login polls, whether a response
//! and metadata are the expected ones, whether a token is fresh, and what a refresh does. For servers: which claims a token needs, and when keys are fetched. For both: scopes, and where metadata is found.
//!
//! Spec: MCP 2026-07-28, basic/authorization; OAuth 2.0 Device Authorization Grant, RFC 8628.

pub mod choice;
pub mod device;
pub mod freshness;
pub mod jwt;
pub mod key_refresh;
pub mod redirect;
pub mod refresh;
pub mod resource;
pub mod scopes;
pub mod well_known;
