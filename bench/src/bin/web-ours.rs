//! Our client over HTTP, through the public `call` path with its deadlines on.

use mcp_bench::callers::Ours;
use mcp_bench::client::{WEB_IN_FLIGHT, Work, web_responder};
use mcp_client::{McpClient, ServerConfig};

fn main() {
    let work = Work::from_arguments();
    let (_responder, url) = web_responder(&work);
    work.runtime().block_on(async {
        let client = McpClient::connect(ServerConfig::url(url)).await.unwrap();
        work.measure(&Ours::new(&client), WEB_IN_FLIGHT).await;
        client.close().await;
    });
}
