//! A Model Context Protocol client.
//!
//! This crate does not hold a client yet. What it has is [`protocol`], the crate that everything here will
//! stand on: types, dialects of five revisions, codecs and state machines without I/O. The
//! [conversation example](https://github.com/mcp-for-rust/mcp/tree/main/examples/conversation) shows those
//! machines in use.
#![warn(missing_docs)]

pub use mcp_protocol as protocol;
