//! Server configs: a program to start, or a URL, as plain data.

mod display;
#[cfg(feature = "oauth")]
mod login;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_protocol::Limits;
use mcp_protocol::negotiation::Mode;

pub(crate) use display::shown_url;

use crate::error::{Error, Result};
#[cfg(any(feature = "http", feature = "stdio"))]
use crate::wire_trace::{ConnectionTrace, WireTrace};

/// Programs that may download a package before they start the server. Their default start timeout is doubled.
const LAUNCHERS: &[&str] = &[
    "bunx", "cargo", "deno", "docker", "dotnet", "go", "npm", "npx", "pipx", "pnpm", "podman", "uv", "uvx",
    "yarn",
];
/// The default timeout for starting a server and for the handshake.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Everything needed to reach a server, as plain data.
///
/// [`command`](Self::command) describes a program to start; [`url`](Self::url) describes a server that is already
/// running. Each has its own setters, and both convert into a plain `ServerConfig` with `.into()`. A config can be used
/// any number of times, for example to reconnect. Values of environment variables and headers are never shown, neither
/// by `Debug` nor in errors.
///
/// ```
/// use mcp_client::ServerConfig;
///
/// let local = ServerConfig::command("weather").arg("--metric").env("WEATHER_KEY", "k-123");
/// assert_eq!(local.to_string(), "weather --metric");
/// assert!(!format!("{local:?}").contains("k-123"));
///
/// let remote = ServerConfig::url("https://mcp.example.com/mcp").bearer_token("t-123");
/// let servers: Vec<ServerConfig> = vec![local.into(), remote.into()];
/// # assert_eq!(servers.len(), 2);
/// ```
#[derive(Clone, PartialEq)]
pub struct ServerConfig<T = Target> {
    pub(crate) target: T,
    pub(crate) start_timeout: Option<Duration>,
    pub(crate) era: Mode,
    pub(crate) limits: Limits,
    #[cfg(feature = "oauth")]
    pub(crate) oauth: Option<Box<crate::oauth::OAuthOptions>>,
}

/// The server of a [`ServerConfig`]: a program to start, or a URL.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// A program to start.
    Command(CommandTarget),
    /// A server that is already running.
    Url(UrlTarget),
}

/// A program to start, with its arguments and environment. Created by [`ServerConfig::command`].
#[derive(Clone, PartialEq, Eq)]
pub struct CommandTarget {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: BTreeMap<OsString, OsString>,
    pub(crate) inherits: bool,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) inherits_stderr: bool,
    pub(crate) restarts: bool,
    /// True if the program is also restarted when its token was refreshed.
    #[cfg(feature = "oauth")]
    pub(crate) restarts_for_token: bool,
}

/// The URL of a server, with the headers to send. Created by [`ServerConfig::url`] and [`ServerConfig::sse`].
#[derive(Clone, PartialEq, Eq)]
pub struct UrlTarget {
    pub(crate) url: String,
    /// The headers that the host configured. Their values are never shown.
    pub(crate) headers: Vec<(String, String)>,
    /// True if only the HTTP+SSE transport (2024-11-05) is tried.
    pub(crate) is_sse: bool,
}

impl ServerConfig {
    /// Describes a program to start, which communicates over its standard input and output.
    ///
    /// A name without a slash is looked up in the folders of `PATH`, with the value of `PATH` that the program itself
    /// receives. No shell is involved.
    #[must_use]
    pub fn command(program: impl Into<OsString>) -> ServerConfig<CommandTarget> {
        ServerConfig::of(CommandTarget {
            program: program.into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            inherits: false,
            directory: None,
            inherits_stderr: false,
            restarts: false,
            #[cfg(feature = "oauth")]
            restarts_for_token: false,
        })
    }

    /// Describes a server behind a URL: `https://…`, or `http://…` on this machine or in a trusted network. The client
    /// detects which revision and transport the server supports. Connecting needs the feature `http`.
    #[must_use]
    pub fn url(url: impl Into<String>) -> ServerConfig<UrlTarget> {
        ServerConfig::of(UrlTarget { url: url.into(), headers: Vec::new(), is_sse: false })
    }

    /// Describes a server behind a URL that is known to support only the HTTP+SSE transport (2024-11-05).
    /// [`url`](Self::url) also detects such a server, but needs two more requests.
    #[must_use]
    pub fn sse(url: impl Into<String>) -> ServerConfig<UrlTarget> {
        ServerConfig::of(UrlTarget { url: url.into(), headers: Vec::new(), is_sse: true })
    }
}

impl<T> ServerConfig<T> {
    fn of(target: T) -> Self {
        Self {
            target,
            start_timeout: None,
            era: Mode::Auto,
            limits: Limits::default(),
            #[cfg(feature = "oauth")]
            oauth: None,
        }
    }

    /// Sets the timeout for starting the server and for the handshake. Default: 30 s, or 60 s for launchers that may
    /// download a package first, such as `npx` and `uvx`. Later calls have their own timeouts. For a program, the last
    /// 600 ms of the timeout, or its last quarter if that is shorter, are reserved for ending a server that failed to
    /// start. With a timeout below 2.4 s, ending such a server may take longer than the timeout.
    #[must_use]
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = Some(timeout);
        self
    }

    /// Sets which eras to try. Default: [`Mode::Auto`], which detects the era of the server.
    #[must_use]
    pub fn era(mut self, era: Mode) -> Self {
        self.era = era;
        self
    }

    /// Sets the limits of the connection, such as the maximum size of a message.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    pub(crate) fn with_target<U>(self, target: impl FnOnce(T) -> U) -> ServerConfig<U> {
        ServerConfig {
            target: target(self.target),
            start_timeout: self.start_timeout,
            era: self.era,
            limits: self.limits,
            #[cfg(feature = "oauth")]
            oauth: self.oauth,
        }
    }
}

impl ServerConfig<CommandTarget> {
    /// Adds an argument. The program receives it unchanged: nothing is split, quoted or expanded.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.target.arguments.push(argument.into());
        self
    }

    /// Adds several arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.target.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable in the program's environment. By default, the program receives only a few variables of this
    /// process (see the guide on processes).
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.target.environment.insert(name.into(), value.into());
        self
    }

    /// Passes the whole environment of this process on to the server. It may contain secrets that the server should not
    /// receive.
    #[must_use]
    pub fn inherit_environment(mut self) -> Self {
        self.target.inherits = true;
        self
    }

    /// Sets the working directory of the program. Default: that of this process.
    #[must_use]
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.target.directory = Some(directory.into());
        self
    }

    /// Also writes each line of the program's stderr to the stderr of this process. Values that were set with
    /// [`env`](Self::env) are masked, and lines are cut after 8 KiB. [`McpClient::stderr`](crate::McpClient::stderr)
    /// and the stderr output in errors are not affected.
    #[doc(alias = "logs")]
    #[must_use]
    pub fn inherit_stderr(mut self) -> Self {
        self.target.inherits_stderr = true;
        self
    }

    /// Allows restarts: if the program has ended, the next call, or a task that waits for changes, starts it again.
    /// After five restarts in 30 s, calls fail for a while ([`Error::TooManyRestarts`]).
    ///
    /// A request that was in flight when the old process ended is sent to the new process only if no byte of it was
    /// sent before, or if its method only reads, such as `tools/list`.
    #[must_use]
    pub fn restarts(mut self) -> Self {
        self.target.restarts = true;
        self
    }

    pub(crate) fn start_budget(&self) -> Duration {
        let name = Path::new(&self.target.program).file_stem().and_then(OsStr::to_str).unwrap_or_default();
        let default = if LAUNCHERS.contains(&name) { 2 * START_TIMEOUT } else { START_TIMEOUT };
        self.start_timeout.unwrap_or(default)
    }
}

#[cfg(feature = "stdio")]
impl CommandTarget {
    /// Returns the wire trace of a connection to the program. It masks the configured environment values.
    pub(crate) fn traced(&self, trace: &WireTrace) -> ConnectionTrace {
        let label = Path::new(&self.program).file_stem().unwrap_or(&self.program);
        let secrets = self.environment.values().map(|value| value.to_string_lossy().into_owned());
        trace.connection(&label.to_string_lossy(), secrets)
    }
}

#[cfg(feature = "http")]
impl UrlTarget {
    /// Returns the wire trace of a connection to the URL. It masks the values of the configured headers.
    pub(crate) fn traced(&self, trace: &WireTrace) -> ConnectionTrace {
        let words =
            self.headers.iter().flat_map(|(_, value)| [Some(value.as_str()), value.rsplit(' ').next()]);
        let label = shown_url(&self.url);
        let host = label.split('/').nth(2).unwrap_or(&label);
        trace.connection(host, words.flatten().map(str::to_owned))
    }
}

impl ServerConfig<UrlTarget> {
    /// Adds a header to every request to the URL. It is not sent anywhere else, and its value is never shown.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.target.headers.push((name.into(), value.into()));
        self
    }

    /// Sends a bearer token with every request to the URL: sets the [`header`](Self::header) `Authorization: Bearer …`.
    #[must_use]
    pub fn bearer_token(self, token: impl Into<String>) -> Self {
        self.header("authorization", format!("Bearer {}", token.into()))
    }

    #[cfg(feature = "http")]
    pub(crate) fn start_budget(&self) -> Duration {
        self.start_timeout.unwrap_or(START_TIMEOUT)
    }
}

impl ServerConfig {
    /// Splits a config into its target and the options that all configs have.
    pub(crate) fn take_target(self) -> (Target, ServerConfig<()>) {
        (self.target.clone(), self.with_target(drop))
    }
}

impl From<ServerConfig<CommandTarget>> for ServerConfig {
    fn from(config: ServerConfig<CommandTarget>) -> Self {
        config.with_target(Target::Command)
    }
}

impl From<ServerConfig<UrlTarget>> for ServerConfig {
    fn from(config: ServerConfig<UrlTarget>) -> Self {
        config.with_target(Target::Url)
    }
}

/// Converts the URL of a server. Other text, such as a command line, is an error: command lines are not split.
impl TryFrom<&str> for ServerConfig {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self> {
        if text.contains("://") && !text.contains(char::is_whitespace) {
            return Ok(Self::url(text).into());
        }
        let config = if text.contains(char::is_whitespace) { text.to_owned() } else { shown_url(text) };
        let problem =
            "not a URL, such as https://mcp.example.com/mcp; to start a program, use ServerConfig::command";
        Err(Error::InvalidConfig { config, problem: problem.to_owned() })
    }
}

/// Converts the URL of a server.
impl TryFrom<String> for ServerConfig {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::try_from(text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_timeout_is_60_s_for_npx_and_uvx_and_30_s_for_others() {
        for (program, seconds) in [("npx", 60), ("/usr/bin/uvx", 60), ("node", 30), ("./server", 30)] {
            assert_eq!(ServerConfig::command(program).start_budget().as_secs(), seconds, "{program}");
        }
        let short = ServerConfig::command("npx").start_timeout(Duration::from_secs(5));
        assert_eq!(short.start_budget().as_secs(), 5);
    }

    #[test]
    fn string_is_a_url_or_refused_naming_the_command() {
        let config = ServerConfig::try_from("https://mcp.example.com/mcp").unwrap();
        assert_eq!(config, ServerConfig::url("https://mcp.example.com/mcp").into());
        assert_eq!(ServerConfig::try_from(config.to_string()).unwrap(), config);
        for text in ["npx -y @scope/server", "weather", "", "localhost:8080/mcp", "open https://a.b"] {
            let error = ServerConfig::try_from(text).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("ServerConfig::command"), "{error}");
        }
        let error = ServerConfig::try_from("me:hush@a.b/mcp?key=hush").unwrap_err();
        assert!(!format!("{error:?} {error}").contains("hush"), "{error:?}");
    }

    #[test]
    fn displayed_server_config_is_complete_without_secrets() {
        let config = ServerConfig::command("run").args(["a b", "", "\u{1b}[2J"]).env("KEY", "hush-hush");
        assert_eq!(config.to_string(), "run \"a b\" \"\" \\u{1b}[2J");
        assert!(format!("{config:?}").contains("KEY") && !format!("{config:?}").contains("hush"));
        let config = ServerConfig::url("https://me:hush@a.b:1/mcp?key=hush")
            .header("X-Key", "hush-hush")
            .bearer_token("hush");
        assert_eq!(config.to_string(), "https://a.b:1/mcp?…");
        assert!(format!("{config:?}").contains("X-Key") && !format!("{config:?}").contains("hush"));
    }
}
