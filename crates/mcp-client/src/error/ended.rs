//! The end of a connection, and its cause.

use std::fmt;
use std::process::ExitStatus;

use mcp_protocol::codec::line::stray_line_hint;
use mcp_protocol::safe_text::SafeText;

use super::HttpStatus;

/// The maximum number of characters of a stdout line that an error shows.
const MAX_SHOWN_LINE: usize = 200;

/// The end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionEnd {
    /// The cause.
    pub cause: EndCause,
    /// The exit status of the server process, if there is a process and it has exited.
    pub status: Option<ExitStatus>,
    /// The last lines that the server wrote to stderr, with secrets masked. Empty if there are none.
    pub stderr: String,
    /// The beginning of the first line on stdout that is not a JSON-RPC message, with secrets masked. Empty if there is
    /// none.
    pub stray_line: String,
}

/// The reason why a connection ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndCause {
    /// The server exited or closed the connection.
    #[default]
    Server,
    /// This client closed the connection.
    Closed,
    /// Writing to the server failed.
    Write(String),
    /// Reading from the server failed.
    Read(String),
    /// A network error.
    Network(String),
    /// The HTTP response was not a JSON-RPC message, but for example a web page.
    Response(Box<HttpStatus>),
    /// The server sent a line that is longer than four times the message limit.
    EndlessLine,
    /// The server sent too many requests that had to be refused, or did not read the responses to its requests.
    Flood,
    /// This client ended the program between two calls, to restart it with a new token.
    NewToken,
    /// A bug in this crate: the task that drives the connection panicked.
    Internal,
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            EndCause::Server => {}
            EndCause::Closed => f.write_str("; this client closed the connection")?,
            EndCause::Write(error) => write!(f, "; write failed: {}", SafeText::message(error))?,
            EndCause::Read(error) => write!(f, "; read failed: {}", SafeText::message(error))?,
            EndCause::Network(problem) => write!(f, "; network error: {}", SafeText::message(problem))?,
            EndCause::Response(answer) => write!(f, "; the response was {answer}")?,
            EndCause::EndlessLine => {
                f.write_str("; the server sent a line longer than four times the message limit")?
            }
            EndCause::Flood => f.write_str("; the server sent too many requests that are not allowed")?,
            EndCause::NewToken => f.write_str("; this client restarts the program with a new token")?,
            EndCause::Internal => {
                f.write_str("; internal error in mcp-client: the connection's task panicked")?
            }
        }
        if let Some(status) = self.status {
            write!(f, "; the process exited with {status}")?;
        }
        write_stray_line(f, &self.stray_line)?;
        if !self.stderr.is_empty() {
            write!(f, "; last stderr output:\n{}", self.stderr)?;
        }
        Ok(())
    }
}

/// Writes the first line on stdout that is not a message, with a hint at the cause. Writes nothing for an empty line.
fn write_stray_line(f: &mut fmt::Formatter<'_>, line: &str) -> fmt::Result {
    if line.is_empty() {
        return Ok(());
    }
    let (hint, line) = (stray_line_hint(line), SafeText::new(line).at_most(MAX_SHOWN_LINE));
    write!(f, "; stdout has output that is not a JSON-RPC message ({hint}): \"{line}\"")
}

/// Displays a line on stdout that is not a message, as a part of an error text.
pub(super) struct StrayLine<'a>(pub(super) Option<&'a str>);

impl fmt::Display for StrayLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_stray_line(f, self.0.unwrap_or_default())
    }
}
