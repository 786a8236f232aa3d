//! The server that the official suite drives: `cargo run --release -p conformance --bin conformance-server -- 127.0.0.1:PORT`

#[path = "server/asking.rs"]
mod asking;
#[path = "server/elicitation.rs"]
mod elicitation;
#[path = "server/offers.rs"]
mod offers;
#[path = "server/tools.rs"]
mod tools;

use std::net::SocketAddr;
use std::process::ExitCode;

use mcp_server::McpServer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(address) = std::env::args().nth(1).and_then(|text| text.parse::<SocketAddr>().ok()) else {
        eprintln!("usage: conformance-server ADDRESS:PORT");
        return ExitCode::from(2);
    };
    let server = McpServer::named("conformance-server", "1.0.0");
    let server = offers::add(asking::add(elicitation::add(tools::add(server))));
    match server.serve_http(address).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
