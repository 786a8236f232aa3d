//! HTTP responses that are not JSON-RPC messages.

use std::fmt;
use std::time::Duration;

use mcp_protocol::safe_text::SafeText;

/// An HTTP response that is not a JSON-RPC message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpStatus {
    /// The status.
    pub status: u16,
    /// The media type of the body.
    pub content_type: Option<String>,
    /// The first part of the body, escaped. Untrusted.
    pub excerpt: String,
    /// The time to wait before a retry.
    pub retry_after: Option<Duration>,
    /// The target of a redirect that was not followed. Untrusted.
    pub location: Option<String>,
}

impl fmt::Display for HttpStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP status {}", self.status)?;
        if let Some(kind) = &self.content_type {
            write!(f, " with {}", SafeText::new(kind).at_most(80))?;
        }
        if let Some(location) = &self.location {
            write!(f, "; redirect to {} was not followed", SafeText::new(location).at_most(200))?;
        }
        if let Some(wait) = self.retry_after {
            write!(f, "; retry after {} s", wait.as_secs())?;
        }
        if !self.excerpt.is_empty() {
            write!(f, ": {}", self.excerpt)?;
        }
        Ok(())
    }
}
