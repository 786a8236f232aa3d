//! Lists or calls the tools of an MCP server: `cargo run -p example-call -- list -- COMMAND ARGS…`, or `list --url URL`

mod options;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use mcp_client::protocol::safe_text::SafeText;
use mcp_client::{Error, McpClient, WireTrace};
use options::{Action, Options};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("{problem}\n{}", options::HELP);
            return ExitCode::from(2);
        }
    };
    ExitCode::from(match run(options).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            code(&error)
        }
    })
}

async fn run(options: Options) -> Result<u8, Error> {
    let mut config = options.server.era(options.era);
    if let Some(timeout) = options.timeout {
        config = config.start_timeout(timeout);
    }
    let mut connect = McpClient::builder(config);
    if let Some(path) = options.trace {
        match std::fs::File::create(&path) {
            Ok(file) => connect = connect.wire_trace(&WireTrace::new(file)),
            Err(error) => {
                eprintln!("cannot write the trace {}: {error}", SafeText::new(&path));
                return Ok(2);
            }
        }
    }
    let mut client = None;
    let work = async {
        let client = client.insert(connect.connect().await?);
        act(client, options.action, options.timeout).await
    };
    let done = mcp_client::unless_interrupted(work).await;
    // Interrupted calls are cancelled on the server before it is shut down.
    if let Some(client) = client {
        client.close().await;
    }
    done.unwrap_or(Ok(130))
}

async fn act(client: &McpClient, action: Action, timeout: Option<std::time::Duration>) -> Result<u8, Error> {
    let (tool, arguments) = match action {
        Action::List => {
            for tool in client.list_tools().await? {
                let about = tool.description.unwrap_or_default();
                let line = format!("{}\t{}", SafeText::new(&tool.name), SafeText::new(&about).at_most(200));
                if let Err(code) = say(&line) {
                    return Ok(code);
                }
            }
            return Ok(0);
        }
        Action::Call(tool, arguments) => (tool, arguments),
    };
    let mut call = client.call(tool, arguments);
    if let Some(timeout) = timeout {
        call = call.timeout(timeout).total_timeout(timeout);
    }
    let outcome = call.await?;
    if outcome.is_error() {
        eprintln!("{}", escaped(&outcome.text()));
        return Ok(1);
    }
    let text = outcome.text();
    // A terminal interprets control characters; a file or a pipe gets the text unchanged.
    let text = if std::io::stdout().is_terminal() { escaped(&text) } else { text };
    Ok(say(&text).err().unwrap_or(0))
}

/// Escapes control characters for a terminal, except line breaks and tabs.
fn escaped(text: &str) -> String {
    let line = |line: &str| {
        let parts: Vec<String> = line.split('\t').map(|part| SafeText::new(part).to_string()).collect();
        parts.join("\t")
    };
    text.split('\n').map(|part| line(part.strip_suffix('\r').unwrap_or(part))).collect::<Vec<_>>().join("\n")
}

/// Writes a line, or returns the exit code. A closed pipe is not an error, as with `| head`.
fn say(line: &str) -> Result<(), u8> {
    match writeln!(std::io::stdout(), "{line}") {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(0),
        Err(error) => {
            eprintln!("cannot write the result: {error}");
            Err(1)
        }
    }
}

/// The exit code for an error.
fn code(error: &Error) -> u8 {
    match error {
        _ if error.is_timeout() => 124,
        Error::Cancelled { .. } => 130,
        _ if error.needs_login() => 6,
        Error::Denied { .. } => 5,
        Error::Start(_) | Error::Connect { .. } | Error::Lost { .. } => 3,
        Error::Unsendable { .. } | Error::InvalidConfig { .. } | Error::FeatureDisabled { .. } => 2,
        _ => 4,
    }
}
