//! Instructions for the user who logs in.

use std::fmt;
use std::time::Duration;

use mcp_protocol::safe_text::SafeText;
use tokio::sync::mpsc;

/// Instructions for the user who logs in, as data for the program to show. `Display` is a prompt for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoginPrompt {
    /// Open a page, on any device, and enter a code.
    #[non_exhaustive]
    DeviceCode {
        /// The URL of the MCP server.
        server: String,
        /// The issuer at which the user logs in.
        issuer: String,
        /// The page: an `https` URL, or an `http` URL on this machine.
        url: String,
        /// The page with the code filled in, for a link or a QR code.
        url_with_code: Option<String>,
        /// The code. Untrusted.
        code: String,
        /// The time for which the code is valid.
        expires_in: Duration,
    },
    /// Open a page in a browser and log in there. The browser then returns to this program.
    #[non_exhaustive]
    Browser {
        /// The URL of the MCP server.
        server: String,
        /// The issuer at which the user logs in.
        issuer: String,
        /// The page: an `https` URL, or an `http` URL on this machine.
        url: String,
        /// True if the page was opened in a browser of this machine.
        is_opened: bool,
        /// Takes the address of the page that the browser shows after the login, from a user whose browser is on another
        /// machine and therefore cannot return to this program.
        pasted: PastedAddress,
    },
}

/// Takes an address that the user pastes. See [`LoginPrompt::Browser`].
#[derive(Clone)]
pub struct PastedAddress(mpsc::Sender<String>);

impl PastedAddress {
    pub(super) fn new(sender: mpsc::Sender<String>) -> Self {
        Self(sender)
    }

    /// Passes the address on to the login. A text that is not the address is ignored, and so is everything after the end
    /// of the login. Line breaks in the text are removed.
    pub async fn send(&self, address: impl Into<String>) {
        // Fails if the login is over.
        drop(self.0.send(address.into()).await);
    }
}

impl PartialEq for PastedAddress {
    fn eq(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }
}

impl Eq for PastedAddress {}

impl fmt::Debug for PastedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PastedAddress")
    }
}

impl fmt::Display for LoginPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, url, url_with_code, code, expires_in) = match self {
            Self::DeviceCode { server, url, url_with_code, code, expires_in, .. } => {
                (server, url, url_with_code, code, expires_in)
            }
            Self::Browser { server, url, is_opened, .. } => {
                let server = SafeText::message(server);
                if *is_opened {
                    writeln!(f, "To log in to {server}, use the page that was opened in your browser:")?;
                } else {
                    writeln!(f, "To log in to {server}, open this page in a browser on this machine:")?;
                }
                // Not cut: the user may have to copy it.
                writeln!(f, "\n    {}\n", SafeText::new(url))?;
                return f.write_str("Waiting…");
            }
        };
        writeln!(f, "To log in to {}, open this page on any device:", SafeText::message(server))?;
        writeln!(f, "\n    {}\n", SafeText::message(url))?;
        writeln!(f, "and enter this code within {} minutes:", expires_in.as_secs().div_ceil(60))?;
        writeln!(f, "\n    {}\n", SafeText::name(code))?;
        if let Some(url) = url_with_code {
            writeln!(
                f,
                "or open this page, which has the code filled in:\n\n    {}\n",
                SafeText::message(url)
            )?;
        }
        f.write_str("Waiting…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_stands_alone_on_its_line_and_is_escaped() {
        let prompt = |code: &str| LoginPrompt::DeviceCode {
            server: "https://mcp.example/mcp".to_owned(),
            issuer: "https://as.example".to_owned(),
            url: "https://as.example/device".to_owned(),
            url_with_code: None,
            code: code.to_owned(),
            expires_in: Duration::from_secs(890),
        };
        let shown = prompt("WDJB-MJHT").to_string();
        assert!(shown.lines().any(|line| line.trim() == "WDJB-MJHT"), "{shown}");
        assert!(shown.contains("within 15 minutes"), "{shown}");
        assert!(!prompt("\u{1b}[2J\u{202e}").to_string().contains(['\u{1b}', '\u{202e}']));
    }
}
