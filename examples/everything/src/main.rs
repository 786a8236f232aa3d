//! A server with tools, resources, prompts and completion, for testing clients:
//! `cargo run -p example-everything [-- --http ADDR] [--tools N]`
//!
//! It serves on standard input and output, or at `/mcp` of the address given with `--http`.

mod tools;

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use mcp_server::http::HttpOptions;
use mcp_server::protocol::prompts::{Prompt, PromptArgument};
use mcp_server::protocol::resources::{Resource, ResourceTemplate};
use mcp_server::{
    CompletionRequest, Error, McpServer, PromptArguments, ReadRequest, prompt, resource, resource_template,
    tool,
};
use tokio::net::TcpListener;

const HELP: &str = "usage: everything [--http ADDRESS:PORT] [--session-idle-ms N] [--tools N]

  --http ADDRESS:PORT  serve over HTTP at /mcp instead of standard input and output
  --session-idle-ms N  set the idle timeout of legacy sessions
  --tools N            add N tools without effect";

struct Options {
    http: Option<SocketAddr>,
    session_idle: Option<Duration>,
    tools: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            eprintln!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("{problem}\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match serve(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options { http: None, session_idle: None, tools: 0 };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("`{argument}` needs a value"));
        match argument.as_str() {
            "--http" => options.http = Some(value()?.parse().map_err(|_| "`--http` needs ADDRESS:PORT")?),
            "--session-idle-ms" => {
                let ms = value()?.parse().map_err(|_| "`--session-idle-ms` needs a number")?;
                options.session_idle = Some(Duration::from_millis(ms));
            }
            "--tools" => options.tools = value()?.parse().map_err(|_| "`--tools` needs a number")?,
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("unknown option `{argument}`")),
        }
    }
    Ok(Some(options))
}

async fn serve(options: Options) -> Result<(), Error> {
    let mut server = offers(tools::add(McpServer::named("everything", env!("CARGO_PKG_VERSION"))));
    for number in 0..options.tools {
        server = server
            .tool(tool(format!("tool_{number}"), || async {}).description(format!("Tool number {number}.")));
    }
    let Some(address) = options.http else { return server.serve_stdio().await };
    let listener = TcpListener::bind(address).await?;
    // One write, so that a reader that waits for the line gets all of it.
    let url = format!("http://{}/mcp\n", listener.local_addr()?);
    std::io::stderr().write_all(url.as_bytes())?;
    let mut http = HttpOptions::default();
    if let Some(idle) = options.session_idle {
        http = http.session_idle(idle);
    }
    server.serve_listener(listener, http, std::future::pending()).await
}

fn offers(server: McpServer) -> McpServer {
    let motd = Resource::new("motd://today", "motd").title("Word of the day").mime_type("text/plain");
    let row = ResourceTemplate::new("row://{table}/{id}", "row").title("A row of a table");
    let greet = Prompt::new("greet")
        .description("Asks the model for a greeting.")
        .arguments([PromptArgument::new("language").description("In which language.").required(true)]);
    server
        .resource(resource(motd, || async { "Be kind." }))
        .template(resource_template(row, |request: ReadRequest| async move {
            format!("row {} of {}", request.variable("id"), request.variable("table"))
        }))
        .prompt(
            prompt(greet, |arguments: PromptArguments| async move {
                format!("Greet me in {}.", arguments.get("language"))
            })
            .complete("language", |request: CompletionRequest| async move {
                let known = ["German", "Greek", "Latin"];
                known.into_iter().filter(move |name| name.starts_with(&request.value))
            }),
        )
}
