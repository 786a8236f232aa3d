//! Integration tests of the public API of mcp-server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod around;
mod asking;
#[cfg(feature = "http")]
mod bounds;
mod calls;
#[cfg(feature = "schemars")]
mod compile_errors;
#[cfg(feature = "sealing")]
mod confirming;
#[cfg(feature = "http")]
mod display;
#[cfg(all(feature = "files", unix))]
mod files;
#[cfg(all(feature = "schemars", feature = "sealing"))]
mod handlers;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod identity;
mod lists;
#[cfg(feature = "http")]
mod observed;
#[cfg(feature = "http")]
mod protected;
#[cfg(feature = "serve")]
mod serve;
mod test_client;
mod wire_trace;
