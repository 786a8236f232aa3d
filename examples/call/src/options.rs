//! The command line.

use std::time::Duration;

use mcp_client::ServerConfig;
use mcp_client::protocol::Json;
use mcp_client::protocol::negotiation::Mode;

pub(crate) const HELP: &str = "usage: call (list | call TOOL JSON) [--timeout SECONDS] [--era auto|legacy|modern]
            [--trace FILE] (--url URL [--header NAME:VALUE]… | -- COMMAND ARGS…)

  list                 print the tools, one per line
  call TOOL JSON       call a tool with these arguments and print the text of the result
  --timeout SECONDS    timeout for connecting and for the call, each
  --era ERA            protocol era to use; default: auto, whatever the server supports
  --trace FILE         write every message to this file, with credentials masked
  --url URL            URL of the server to connect to
  --header NAME:VALUE  header to send with every request to the URL
  -- COMMAND ARGS…     command line of the server to start

Exit codes: 0 success, 1 the tool reported an error, 2 usage, 3 cannot connect or connection lost, 4 protocol error,
5 denied by the network policy, 6 login needed, 124 timed out, 130 interrupted.";

pub(crate) struct Options {
    pub(crate) action: Action,
    pub(crate) timeout: Option<Duration>,
    pub(crate) era: Mode,
    pub(crate) trace: Option<String>,
    pub(crate) server: ServerConfig,
}

pub(crate) enum Action {
    List,
    Call(String, Json),
}

impl Options {
    /// Parses the arguments. Returns `None` for `--help`.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let (mut action, mut timeout, mut era, mut trace) = (None, None, Mode::Auto, None);
        let (mut url, mut command, mut headers) = (None, None, Vec::new());
        while let Some(word) = words.next() {
            let mut value = |what: &str| words.next().ok_or(format!("`{word}` needs {what}"));
            match word.as_str() {
                "--help" | "-h" => return Ok(None),
                "list" if action.is_none() => action = Some(Action::List),
                "call" if action.is_none() => {
                    let tool = value("the name of a tool")?;
                    let text = value("arguments as JSON, such as '{}'")?;
                    let arguments: Json =
                        text.parse().map_err(|error| format!("the arguments are not JSON: {error}"))?;
                    if !arguments.is_object() {
                        return Err("the arguments must be a JSON object".to_owned());
                    }
                    action = Some(Action::Call(tool, arguments));
                }
                "--timeout" => {
                    let seconds = value("a number of seconds")?.parse().ok();
                    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                    timeout = Some(duration.ok_or("`--timeout` needs a number of seconds")?);
                }
                "--era" => {
                    era = match value("auto, legacy or modern")?.as_str() {
                        "auto" => Mode::Auto,
                        "legacy" => Mode::Legacy,
                        "modern" => Mode::Modern,
                        _ => return Err("`--era` is auto, legacy or modern".to_owned()),
                    }
                }
                "--trace" => trace = Some(value("a file")?),
                "--url" => url = Some(value("a URL")?),
                "--header" => {
                    let header = value("NAME:VALUE")?;
                    let (name, value) = header.split_once(':').ok_or("`--header` needs NAME:VALUE")?;
                    headers.push((name.trim().to_owned(), value.trim().to_owned()));
                }
                "--" => {
                    let program = value("a command")?;
                    command = Some(ServerConfig::command(program).args(words.by_ref()));
                }
                other => return Err(format!("unexpected argument `{other}`")),
            }
        }
        let action = action.ok_or("missing command: `list` or `call`")?;
        let server: ServerConfig = match (url, command) {
            (Some(url), None) => {
                let add = |config: ServerConfig<_>, (name, value)| config.header(name, value);
                headers.into_iter().fold(ServerConfig::url(url), add).into()
            }
            (None, Some(_)) if !headers.is_empty() => return Err("`--header` needs `--url`".to_owned()),
            (None, Some(command)) => command.into(),
            _ => return Err("name one server: either `--url URL` or `-- COMMAND`".to_owned()),
        };
        Ok(Some(Self { action, timeout, era, trace, server }))
    }
}
