//! What to start, as plain data.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_protocol::Limits;
use mcp_protocol::negotiation::Mode;
use mcp_protocol::visible::Visible;

/// Programs that may have to download what they run, and get twice the time to start.
const LAUNCHERS: &[&str] = &[
    "bunx", "cargo", "deno", "docker", "dotnet", "go", "npm", "npx", "pipx", "pnpm", "podman", "uv", "uvx",
    "yarn",
];

/// Everything needed to reach a server, as plain data.
///
/// Use it as often as you like: reconnecting is using it again. Values of environment variables are never shown,
/// neither by `Debug` nor in errors.
///
/// ```
/// let config = mcp_client::ServerConfig::command("weather").arg("--metric").env("WEATHER_KEY", "k-123");
/// assert_eq!(config.to_string(), "weather --metric");
/// assert!(!format!("{config:?}").contains("k-123"));
/// ```
#[derive(Clone, PartialEq)]
pub struct ServerConfig {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: BTreeMap<OsString, OsString>,
    pub(crate) inherits: bool,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) start_timeout: Option<Duration>,
    pub(crate) era: Mode,
    pub(crate) limits: Limits,
    pub(crate) restarts: bool,
    /// A server that is there already; then nothing is started.
    pub(crate) address: Option<Address>,
}

/// Where a server is that is there already.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) url: String,
    /// Given by the host; never shown.
    pub(crate) headers: Vec<(String, String)>,
    /// Only the old pair of HTTP and server-sent events is tried.
    pub(crate) is_pair: bool,
}

impl ServerConfig {
    /// A program to start; it speaks on its standard input and output.
    ///
    /// A name without a slash is looked for in the `PATH` that the program itself will see. No shell is involved.
    #[must_use]
    pub fn command(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            inherits: false,
            directory: None,
            start_timeout: None,
            era: Mode::Auto,
            limits: Limits::default(),
            restarts: false,
            address: None,
        }
    }

    /// A server behind a URL: `https://…`, or `http://…` on this machine or in a network that is trusted. Which era and
    /// transport it speaks is found out. Needs the feature `http`.
    ///
    /// ```
    /// let config = mcp_client::ServerConfig::url("https://mcp.example.com/mcp").bearer_token("t-123");
    /// assert_eq!(config.to_string(), "https://mcp.example.com/mcp");
    /// assert!(!format!("{config:?}").contains("t-123"));
    /// ```
    #[must_use]
    pub fn url(url: impl Into<String>) -> Self {
        let address = Address { url: url.into(), headers: Vec::new(), is_pair: false };
        Self { address: Some(address), ..Self::command("") }
    }

    /// A server behind a URL that is known to speak the old pair of HTTP and server-sent events. [`url`](Self::url) finds
    /// that out, too, but asks twice before.
    #[must_use]
    pub fn sse(url: impl Into<String>) -> Self {
        let address = Address { url: url.into(), headers: Vec::new(), is_pair: true };
        // It has no way to go on where it was.
        Self { address: Some(address), restarts: true, ..Self::command("") }
    }

    /// Adds a header to every request to a URL. It is never sent anywhere else, and its value is never shown.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let header = (name.into(), value.into());
        self.address.get_or_insert_with(Address::none).headers.push(header);
        self
    }

    /// Sends a token with every request to a URL: [`header`](Self::header) with `Authorization: Bearer …`.
    #[must_use]
    pub fn bearer_token(self, token: impl Into<String>) -> Self {
        self.header("authorization", format!("Bearer {}", token.into()))
    }

    /// Adds an argument. It arrives as it is: nothing is split, quoted or expanded.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<T: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable in the program's environment, beside the few that are passed on (see
    /// the guide on processes).
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Passes this program's whole environment on. It may hold secrets that are none of the server's business.
    #[must_use]
    pub fn inherit_environment(mut self) -> Self {
        self.inherits = true;
        self
    }

    /// Sets the folder to start in. Default: this program's.
    #[must_use]
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Sets how long it may take from the start until the server is usable. Default: 30 s, or 60 s for launchers that
    /// may have to download, such as `npx` and `uvx`. It does not bound later calls. The last of it, up to 600 ms, is for
    /// ending a server that failed; if that is more than a quarter, a server that has to be killed takes that much longer.
    #[must_use]
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = Some(timeout);
        self
    }

    /// Sets which eras to try. Default: [`Mode::Auto`], whatever the server speaks.
    #[must_use]
    pub fn era(mut self, era: Mode) -> Self {
        self.era = era;
        self
    }

    /// Has the program started again when it has ended and somebody needs it: the next call, or whoever waits for
    /// changes. After five starts in half a minute it is left alone for a while ([`Error::KeepsEnding`]).
    ///
    /// What was lost with the old process is not done again, except for what provably never reached it and for what
    /// only reads.
    ///
    /// [`Error::KeepsEnding`]: crate::Error::KeepsEnding
    #[must_use]
    pub fn restarts(mut self) -> Self {
        self.restarts = true;
        self
    }

    /// Sets the bounds of the connection.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    fn header_names(&self) -> Vec<&str> {
        self.address.iter().flat_map(|address| &address.headers).map(|(name, _)| name.as_str()).collect()
    }

    /// What makes no sense about it.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let address = self.address.as_ref()?;
        let is_command = !self.program.is_empty()
            || !self.arguments.is_empty()
            || !self.environment.is_empty()
            || self.inherits
            || self.directory.is_some();
        if address.url.is_empty() {
            Some("headers are for servers behind a URL")
        } else if is_command {
            Some("a server behind a URL is not started, and has no arguments, variables or folder")
        } else {
            None
        }
    }

    pub(crate) fn start_budget(&self) -> Duration {
        let name = Path::new(&self.program).file_stem().and_then(OsStr::to_str).unwrap_or_default();
        let default = if LAUNCHERS.contains(&name) { 60 } else { 30 };
        self.start_timeout.unwrap_or(Duration::from_secs(default))
    }
}

impl Address {
    fn none() -> Self {
        Self { url: String::new(), headers: Vec::new(), is_pair: false }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_url(&self.url))
    }
}

/// A URL without what may be secret: what stands before the host, and behind the path.
pub(crate) fn shown_url(url: &str) -> String {
    let (shown, hidden) = match url.find(['?', '#']) {
        Some(at) => (&url[..at], "?…"),
        None => (url, ""),
    };
    let (scheme, rest) = shown.split_once("://").unwrap_or(("", shown));
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit('@').next().unwrap_or_default();
    let slashes = if scheme.is_empty() { "" } else { "://" };
    format!("{}{slashes}{}{}{hidden}", Visible::new(scheme), Visible::new(host), Visible::new(path))
}

/// The command line, fit to be shown; not fit for a shell. A URL is shown without its query.
impl fmt::Display for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(address) = self.address.as_ref().filter(|address| !address.url.is_empty()) {
            return address.fmt(f);
        }
        write!(f, "{}", Visible::new(&self.program.to_string_lossy()))?;
        for argument in &self.arguments {
            let text = argument.to_string_lossy();
            if text.is_empty() || text.contains(char::is_whitespace) {
                write!(f, " \"{}\"", Visible::new(&text))?;
            } else {
                write!(f, " {}", Visible::new(&text))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("environment", &self.environment.keys().collect::<Vec<_>>())
            .field("inherits", &self.inherits)
            .field("directory", &self.directory)
            .field("start_timeout", &self.start_timeout)
            .field("era", &self.era)
            .field("restarts", &self.restarts)
            .field("url", &self.address.as_ref().map(ToString::to_string))
            .field("headers", &self.header_names())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_28_launchers_that_may_download_get_a_minute_and_others_half_of_it() {
        for (program, seconds) in [("npx", 60), ("/usr/bin/uvx", 60), ("node", 30), ("./server", 30)] {
            assert_eq!(ServerConfig::command(program).start_budget().as_secs(), seconds, "{program}");
        }
        let short = ServerConfig::command("npx").start_timeout(Duration::from_secs(5));
        assert_eq!(short.start_budget().as_secs(), 5);
    }

    #[test]
    fn what_is_shown_of_a_recipe_is_whole_and_has_no_secret() {
        let config = ServerConfig::command("run").args(["a b", "", "\u{1b}[2J"]).env("KEY", "hush-hush");
        assert_eq!(config.to_string(), "run \"a b\" \"\" \\u{1b}[2J");
        assert!(format!("{config:?}").contains("KEY") && !format!("{config:?}").contains("hush"));
        let config = ServerConfig::url("https://me:hush@a.b:1/mcp?key=hush")
            .header("X-Key", "hush-hush")
            .bearer_token("hush");
        assert_eq!(config.to_string(), "https://a.b:1/mcp?…");
        assert!(format!("{config:?}").contains("X-Key") && !format!("{config:?}").contains("hush"));
        assert!(
            config.arg("x").problem().is_some()
                && ServerConfig::command("x").header("a", "b").problem().is_some()
        );
    }
}
