//! Logins with OAuth: a user logs in once with a code, or a service uses its own credentials; tokens are stored,
//! refreshed and sent with every request.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use mcp_client::oauth::{Credentials, OAuthError, OAuthOptions};
//! use mcp_client::{McpClient, ServerConfig};
//!
//! let url = "https://mcp.example.com/mcp";
//! let oauth = OAuthOptions::issuer("https://auth.example.com", "my-cli").scopes(["notes:read"]);
//! let credentials = Credentials::auto("my-cli")?;
//!
//! // Once, when the user asks for it:
//! credentials.login(url, &oauth, |prompt| async move { eprintln!("{prompt}") }).await?;
//!
//! // From then on:
//! let client = McpClient::builder(ServerConfig::url(url)).oauth(&credentials, oauth).connect().await?;
//! # client.close().await; Ok(()) }
//! ```
//!
//! What is not part of this module yet: discovery of the issuer from the server's metadata, dynamic registration, and
//! logins in a browser. The issuer and the client id must be known.

mod answer;
mod client_auth;
mod clock;
mod credential;
mod credentials;
mod endpoint;
mod error;
mod grants;
mod login;
mod metadata;
mod options;
mod prompt;
#[cfg(test)]
mod scripted;
mod source;
mod status;

pub use credentials::Credentials;
pub use error::OAuthError;
pub use mcp_protocol::oauth::refresh::LogInReason;
pub use options::OAuthOptions;
pub use prompt::LoginPrompt;
pub use source::{Token, TokenSource};
pub use status::{LoginStatus, LogoutReport};
