//! A Model Context Protocol client for servers of all protocol revisions, 2024-11-05 to 2026-07-28.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> mcp_client::Result<()> {
//! use mcp_client::{McpClient, ServerConfig};
//!
//! let client = McpClient::connect(ServerConfig::command("npx").args(["-y", "some-server"])).await?;
//! let outcome = client.call("add", serde_json::json!({"a": 1, "b": 2})).await?;
//! println!("{}", outcome.text());
//! client.close().await;
//! # Ok(()) }
//! ```
//!
//! # What it does for you
//!
//! - **Processes.** A server runs in its own process group with a small environment, and is always ended: gracefully by
//!   [`McpClient::close`], immediately when the last clone is dropped.
//! - **Eras.** The protocol revision of the server is detected while connecting. The interfaces for calls, handlers and
//!   changes are the same for all revisions.
//! - **Time.** Connecting and every call have timeouts. Dropping a call cancels it on the server.
//! - **Errors.** An [`Error`] says which side is at fault, whether a retry is safe, whether the server may have acted,
//!   whether a timeout elapsed, and whether a login is needed.
//!
//! # Map
//!
//! | to | look at |
//! |---|---|
//! | describe a server: a program or a URL | [`ServerConfig`] |
//! | connect, with options | [`McpClient::connect`], [`McpClient::builder`], [`McpClient::over`] |
//! | call tools | [`McpClient::call`], [`ToolCall`], [`ToolResult`] |
//! | answer elicitation, sampling and roots requests | [`Handlers`] |
//! | subscribe to changes | [`McpClient::changes`] |
//! | avoid probing a legacy server at every connection | [`NegotiationCache`] |
//! | cache lists and resources of modern servers | [`Cache`] |
//! | configure proxies, certificates and allowed addresses | `http::Network`, `http::NetworkPolicy` |
//! | find the processes that a crashed host left | [`Ledger`] |
//! | log in with OAuth | `oauth` |
//! | store credentials | `credentials` |
//! | handle errors | [`Error`], [`ConnectionEnd`] |
//! | see every message, for debugging | [`WireTrace`] |
//!
//! # Features
//!
//! | feature | default | purpose |
//! |---|---|---|
//! | `stdio` | yes | starting servers as child processes: [`ServerConfig::command`]. Without it, [`McpClient::over`] still connects over open byte streams |
//! | `http` | no | servers behind a URL, with TLS and proxies: [`ServerConfig::url`] |
//! | `encrypted-file` | no | stores for credentials: encrypted files, environment variables, memory |
//! | `keyring` | no | credentials in the keychain of the operating system. Includes `encrypted-file` |
//! | `oauth` | no | logins with OAuth: device code, client credentials, refresh. Includes `http` and `encrypted-file` |
//! | `blocking` | no | the client for programs without a runtime: `blocking::McpClient` |
//! | `test-peer` | no | the program `mcp-test-peer`, which violates the protocol on purpose |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

#[cfg(feature = "blocking")]
#[cfg_attr(docsrs, doc(cfg(feature = "blocking")))]
pub mod blocking;
mod client;
mod config;
mod connect;
#[cfg_attr(
    not(feature = "http"),
    allow(dead_code, reason = "parts of the transport interface are used by HTTP only")
)]
mod connection;
#[cfg(feature = "encrypted-file")]
#[cfg_attr(docsrs, doc(cfg(feature = "encrypted-file")))]
pub mod credentials;
mod error;
#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod http;
#[cfg(feature = "oauth")]
#[cfg_attr(docsrs, doc(cfg(feature = "oauth")))]
pub mod oauth;
#[cfg(feature = "stdio")]
mod stdio;
mod stream;
#[cfg(feature = "http")]
mod streamable;
#[cfg(feature = "test-peer")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-peer")))]
pub mod test_peer;
mod wire_trace;

#[cfg(feature = "encrypted-file")]
#[cfg_attr(docsrs, doc(cfg(feature = "encrypted-file")))]
pub use async_trait::async_trait;
pub use client::McpClient;
pub use client::call::{ToolCall, ToolResult};
pub use client::changes::Changes;
pub use client::lists::List;
pub use client::output_schema::SchemaMismatch;
pub use client::running::RunningCall;
pub use config::negotiation_cache::NegotiationCache;
pub use config::rfc_config::{McpClientConfig, OAuthConfig, OAuthProvider, TokenStorage};
pub use config::server_config::{CommandTarget, ServerConfig, Target, UrlTarget};
pub use connect::Connect;
pub use connection::cache::Cache;
pub use connection::feed::{Feed, FeedItem};
pub use connection::handlers::{Handlers, ServerRequest};
pub use connection::progress::Progress;
pub use connection::shutdown::{Force, Shutdown};
pub use connection::subscribers::Change;
pub use error::{Blame, ConnectionEnd, EndCause, Error, HttpStatus, LoginNeeded, Result, Sent, StartError};
pub use mcp_protocol as protocol;
pub use mcp_protocol::metrics::Metrics;
#[cfg(feature = "stdio")]
pub use stdio::interrupt::unless_interrupted;
#[cfg(feature = "stdio")]
pub use stdio::process::ledger::{Ledger, Leftover, SkippedFile};
pub use wire_trace::WireTrace;

/// Includes the guides, so that their examples are compiled.
#[cfg(doctest)]
mod guides {
    macro_rules! guides {
        ($($name:ident $file:literal)*) => { $(
            #[doc = include_str!(concat!("../../../docs/guides/", $file))]
            mod $name {}
        )* };
    }

    guides! {
        being_asked "being-asked.md"
        connecting_to_a_url "connecting-to-a-url.md"
        credentials "credentials.md"
        debugging "debugging.md"
        eras "eras.md"
        errors "errors.md"
        first_client "first-client.md"
        http_in_companies "http-in-companies.md"
        logging_in "logging-in.md"
        migrating "migrating.md"
        misbehaving_peer "misbehaving-peer.md"
        network_policy "network-policy.md"
        processes "processes.md"
        progress "progress.md"
        reading_resources "reading-resources.md"
        sessions_and_reconnects "sessions-and-reconnects.md"
    }

    #[doc = include_str!("../README.md")]
    mod readme {}
}
