//! Instructions for the user who logs in.

use std::fmt;
use std::time::Duration;

use mcp_protocol::safe_text::SafeText;

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
}

impl fmt::Display for LoginPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::DeviceCode { server, url, url_with_code, code, expires_in, .. } = self;
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
