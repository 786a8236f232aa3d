//! Decisions of an OAuth client, without I/O: when a device login polls, whether a token is fresh, and what a refresh
//! does.
//!
//! Spec: MCP 2026-07-28, basic/authorization; OAuth 2.0 Device Authorization Grant, RFC 8628.

pub mod device;
pub mod freshness;
pub mod refresh;
