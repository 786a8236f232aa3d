//! rmcp's client over HTTP, as its README shows.

use mcp_bench::client::{Meter, WEB_IN_FLIGHT, Work, web_responder};
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService, ServiceExt};
use rmcp::transport::StreamableHttpClientTransport;

async fn call(client: &rmcp::Peer<RoleClient>, arguments: &serde_json::Map<String, serde_json::Value>) {
    let params = CallToolRequestParams::new("echo").with_arguments(arguments.clone());
    let result = client.call_tool(params).await.unwrap();
    assert_eq!(result.content[0].as_text().unwrap().text, "hello there");
}

async fn run(client: &RunningService<RoleClient, ()>, work: &Work, calls: u64) {
    let arguments = serde_json::json!({"text": "hello there"}).as_object().cloned().unwrap();
    if work.is_sequential {
        for _ in 0..calls {
            call(client.peer(), &arguments).await;
        }
        return;
    }
    let callers: Vec<_> = (0..WEB_IN_FLIGHT)
        .map(|_| {
            let (peer, arguments) = (client.peer().clone(), arguments.clone());
            tokio::spawn(async move {
                for _ in 0..calls / WEB_IN_FLIGHT {
                    call(&peer, &arguments).await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

fn main() {
    let work = Work::from_arguments();
    let (_responder, url) = web_responder(&work);
    work.runtime().block_on(async {
        let client = ().serve(StreamableHttpClientTransport::from_uri(url)).await.unwrap();
        run(&client, &work, work.calls / 10).await;
        let meter = Meter::begin();
        run(&client, &work, work.calls).await;
        meter.tell(work.calls);
        client.cancel().await.unwrap();
    });
}
