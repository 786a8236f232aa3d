//! A command-line program that uses a server for one of its commands: `cargo run -p example-embed-in-cli -- add 1 2`
//!
//! The pattern to copy: connect on demand, print the error with its remedy, and close the client on every path.

use std::process::ExitCode;
use std::time::Duration;

use mcp_client::{Error, McpClient, ServerConfig};
#[derive(Debug)]
enum Command {
    Add(i64, i64),
}

fn parse(words: &[String]) -> Option<Command> {
    match words {
        [command, a, b] if command == "add" => Some(Command::Add(a.parse().ok()?, b.parse().ok()?)),
        _ => None,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(Command::Add(a, b)) = parse(&words) else {
        eprintln!("usage: embed-in-cli add NUMBER NUMBER");
        return ExitCode::from(2);
    };
    match add(a, b).await {
        Ok(sum) => {
            println!("{sum}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            if error.is_retry_safe() {
                eprintln!("The server did nothing; you can retry.");
            } else if error.may_have_happened() {
                eprintln!("The server may have acted; check before you retry.");
            }
            ExitCode::FAILURE
        }
    }
}

#[derive(serde::Serialize)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(serde::Deserialize)]
struct Sum {
    sum: i64,
}

/// Adds two numbers on the example server.
async fn add(a: i64, b: i64) -> Result<i64, Error> {
    let server = ServerConfig::command("cargo").args(["run", "--quiet", "-p", "example-everything"]);
    let client = McpClient::builder(server).name("embed-in-cli", env!("CARGO_PKG_VERSION")).connect().await?;
    let call = client.call("add", Add { a, b }).timeout(Duration::from_secs(10));
    let outcome = call.await;
    client.close().await;
    let Sum { sum } = outcome?.json()?;
    Ok(sum)
}
