//! The server that the official suite tests:
//! `cargo run --release -p conformance --bin conformance-server -- 127.0.0.1:PORT`

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

use mcp_server::http::HttpOptions;
use mcp_server::{Error, McpServer};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(address) = std::env::args().nth(1).and_then(|text| text.parse::<SocketAddr>().ok()) else {
        eprintln!("usage: conformance-server ADDRESS:PORT");
        return ExitCode::from(2);
    };
    match serve(address).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until killed. Prints the URL when the server is ready, because the port may be chosen by the system.
async fn serve(address: SocketAddr) -> Result<(), Error> {
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let server = McpServer::named("conformance-server", "1.0.0");
    let server = offers::add(asking::add(elicitation::add(tools::add(server))));
    server.serve_listener(listener, HttpOptions::default(), std::future::pending()).await
}
