//! HTTP responses that are not JSON-RPC messages.

use std::fmt;
use std::time::Duration;

use mcp_protocol::safe_text::SafeText;

/// An HTTP response that is not a JSON-RPC message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpStatus {
    /// The status code.
    pub status: u16,
    /// The media type of the body, without parameters. Untrusted.
    pub content_type: Option<String>,
    /// The content encoding, such as `gzip`. This client neither requests nor decodes one. Untrusted.
    pub content_encoding: Option<String>,
    /// The first 200 characters of the body, escaped and with configured secrets masked. Empty if the body is
    /// compressed. Untrusted.
    pub excerpt: String,
    /// The time that the server asks to wait before a retry (`Retry-After`).
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
        if let Some(encoding) = &self.content_encoding {
            let encoding = SafeText::new(encoding).at_most(80);
            write!(f, ", compressed with {encoding} although that was not requested")?;
        }
        let is_empty = self.excerpt.is_empty() && self.content_encoding.is_none();
        if is_empty && self.status == 200 && self.content_type.as_deref() != Some("text/event-stream") {
            f.write_str(", empty body")?;
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
        match self.cause() {
            Some(cause) => write!(f, "; {cause}"),
            None => Ok(()),
        }
    }
}

impl HttpStatus {
    /// Returns the usual cause of such a response.
    fn cause(&self) -> Option<&'static str> {
        let is_success = (200..300).contains(&self.status);
        match self.content_type.as_deref() {
            Some("text/html" | "application/xhtml+xml") if is_success || self.status == 404 => Some(
                "this is a web page and not an MCP response: check the path of the URL, often /mcp or /sse, and whether a login page or proxy is in between",
            ),
            _ if !is_success || self.content_encoding.is_some() || self.excerpt.is_empty() => None,
            Some("application/json" | "text/event-stream") => {
                Some("this is not a JSON-RPC message: check the path of the URL, often /mcp or /sse")
            }
            _ => Some("an MCP server responds with application/json or text/event-stream: check the URL"),
        }
    }
}
