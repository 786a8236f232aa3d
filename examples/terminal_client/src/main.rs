//! Calls a tool from the terminal, with progress, questions of the server and Ctrl-C:
//! `cargo run -p example-terminal-client -- TOOL JSON (URL | COMMAND ARGS…)`

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use mcp_client::protocol::Json;
use mcp_client::protocol::elicitation::{ElicitFormParams, ElicitResult};
use mcp_client::protocol::safe_text::SafeText;
use mcp_client::{Handlers, McpClient, Progress, ServerConfig, ServerRequest, unless_interrupted};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(Some(text)) => {
            text.lines().for_each(|line| println!("{}", SafeText::new(line)));
            ExitCode::SUCCESS
        }
        Ok(None) => ExitCode::from(130),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Connects and calls the tool. Returns the text of its result, or `None` if the user pressed Ctrl-C.
async fn run() -> Result<Option<String>, Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(tool), Some(arguments), Some(server)) = (words.next(), words.next(), words.next()) else {
        return Err("usage: terminal-client TOOL JSON (URL | COMMAND ARGS…)".into());
    };
    let arguments: Json = arguments.parse()?;
    let server: ServerConfig = if server.contains("://") {
        ServerConfig::url(server).into()
    } else {
        ServerConfig::command(server).args(words).into()
    };
    let connecting = McpClient::builder(server).handlers(Handlers::new().on_form(ask)).connect();
    let Some(client) = unless_interrupted(connecting).await else { return Ok(None) };
    let client = client?;
    // Ctrl-C cancels the call on the server first.
    let call = client.call(tool, arguments).on_progress(show);
    let outcome = client.unless_interrupted(call).await;
    client.close().await;
    let Some(outcome) = outcome else { return Ok(None) };
    Ok(Some(outcome?.ok()?.text()))
}

fn show(step: Progress) {
    let total = step.total.map(|total| format!(" of {total}")).unwrap_or_default();
    eprintln!("{}{total} {}", step.progress, SafeText::message(&step.message.unwrap_or_default()));
}

/// Asks the user for each field of a form.
async fn ask(asked: ServerRequest<ElicitFormParams>) -> ElicitResult {
    // Without a terminal there is no user to ask.
    if !std::io::stdin().is_terminal() {
        return ElicitResult::cancel();
    }
    eprintln!("{} asks: {}", SafeText::new(&asked.server), SafeText::new(&asked.params.message));
    eprintln!("Leave a field empty for its default; type `decline` to decline. Never type a password here.");
    let mut result = ElicitResult::accept([]);
    for (name, field) in &asked.params.requested_schema.fields {
        let label = SafeText::new(field.title().unwrap_or(name)).to_string();
        let Some(line) = read_line(&format!("{label}: ")).await else { return ElicitResult::cancel() };
        match (line.trim(), field.parse(line.trim())) {
            ("decline", _) => return ElicitResult::decline(),
            ("", _) => {}
            (_, Ok(value)) => result = result.field(name, value),
            (_, Err(problem)) => eprintln!("{problem}; it is left out."),
        }
    }
    result
}

/// Reads a line on a thread of its own, for which the runtime does not wait after Ctrl-C.
async fn read_line(prompt: &str) -> Option<String> {
    eprint!("{prompt}");
    std::io::stderr().flush().ok()?;
    let (sender, line) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || sender.send(std::io::stdin().lines().next()));
    line.await.ok()??.ok()
}
