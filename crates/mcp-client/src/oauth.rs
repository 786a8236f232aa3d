//! Logins with OAuth: a user logs in once with a code, or a service uses its own credentials; tokens are stored,
//! refreshed and sent with every request.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use mcp_client::oauth::{Credentials, OAuthError, OAuthOptions};
//! use mcp_client::{McpClient, ServerConfig};
//!
//! let oauth = OAuthOptions::issuer("https://auth.example.com", "my-cli").scopes(["notes:read"]);
//! let server = ServerConfig::url("https://mcp.example.com/mcp").oauth(oauth);
//! let credentials = Credentials::auto("my-cli")?;
//!
//! // Once, when the user asks for it:
//! credentials.login(&server, |prompt| async move { eprintln!("{prompt}") }).await?;
//!
//! // From then on:
//! let client = McpClient::builder(server).credentials(&credentials).connect().await?;
//! # client.close().await; Ok(()) }
//! ```
//!
//! With [`OAuthOptions::discover`], neither the issuer nor a client id must be known.

mod answer;
mod assertion;
mod browser;
mod client_auth;
mod clock;
mod code;
mod connection_login;
mod credential;
mod credentials;
mod discover;
mod dpop;
mod endpoint;
mod error;
mod event;
mod grants;
mod listener;
mod login;
mod login_server;
mod metadata;
mod options;
mod prompt;
mod providers;
mod register;
mod resolve;
#[cfg(test)]
mod scripted;
mod source;
mod status;
mod stores;
mod token;

pub use assertion::IdentityProvider;
pub(crate) use connection_login::ConnectionLogin;
pub use credentials::Credentials;
pub(crate) use discover::Demand;
pub(crate) use dpop::{PROOF, Prover};
pub(crate) use endpoint::endpoint_url;
pub use error::OAuthError;
pub use event::CredentialEvent;
pub(crate) use login_server::LoginServer;
pub use mcp_protocol::oauth::choice::LoginMethod;
pub use mcp_protocol::oauth::refresh::LogInReason;
pub use options::OAuthOptions;
pub use prompt::{LoginPrompt, PastedAddress};
pub use source::TokenSource;
pub use status::{LoginStatus, LogoutReport};
pub use token::Token;
