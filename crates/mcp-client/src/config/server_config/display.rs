//! `Display` and `Debug` of server configs. They do not show the values of environment variables and headers, nor the
//! query of a URL.

use std::fmt;

use mcp_protocol::safe_text::SafeText;

use super::{CommandTarget, ServerConfig, Target, UrlTarget};

/// Returns a URL without the parts that may be secret: user name, password, query and fragment.
pub(crate) fn shown_url(url: &str) -> String {
    let (shown, hidden) = match url.find(['?', '#']) {
        Some(at) => (&url[..at], "?…"),
        None => (url, ""),
    };
    let (scheme, rest) = shown.split_once("://").unwrap_or(("", shown));
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit('@').next().unwrap_or_default();
    let slashes = if scheme.is_empty() { "" } else { "://" };
    format!("{}{slashes}{}{}{hidden}", SafeText::new(scheme), SafeText::new(host), SafeText::new(path))
}

/// Shows the command line, which is not quoted for a shell, or the URL without its query.
impl<T: fmt::Display> fmt::Display for ServerConfig<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => command.fmt(f),
            Self::Url(url) => url.fmt(f),
        }
    }
}

impl fmt::Display for CommandTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", SafeText::new(&self.program.to_string_lossy()))?;
        for argument in &self.arguments {
            let text = argument.to_string_lossy();
            if text.is_empty() || text.contains(char::is_whitespace) {
                write!(f, " \"{}\"", SafeText::new(&text))?;
            } else {
                write!(f, " {}", SafeText::new(&text))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for UrlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_url(&self.url))
    }
}

impl<T: fmt::Debug> fmt::Debug for ServerConfig<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("target", &self.target)
            .field("start_timeout", &self.start_timeout)
            .field("era", &self.era)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => command.fmt(f),
            Self::Url(url) => url.fmt(f),
        }
    }
}

/// Shows the names of the environment variables, not their values.
impl fmt::Debug for CommandTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandTarget")
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("environment", &self.environment.keys().collect::<Vec<_>>())
            .field("inherits", &self.inherits)
            .field("directory", &self.directory)
            .field("inherits_stderr", &self.inherits_stderr)
            .field("restarts", &self.restarts)
            .finish()
    }
}

/// Shows the names of the headers, not their values, and the URL without its query.
impl fmt::Debug for UrlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlTarget")
            .field("url", &self.to_string())
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
