//! rmcp's client over HTTP, as its README shows.

use mcp_bench::callers::Rmcp;
use mcp_bench::client::{WEB_IN_FLIGHT, Work, web_responder};
use rmcp::service::ServiceExt;
use rmcp::transport::StreamableHttpClientTransport;

fn main() {
    let work = Work::from_arguments();
    let (_responder, url) = web_responder(&work);
    work.runtime().block_on(async {
        let client = ().serve(StreamableHttpClientTransport::from_uri(url)).await.unwrap();
        work.measure(&Rmcp::new(&client), WEB_IN_FLIGHT).await;
        client.cancel().await.unwrap();
    });
}
