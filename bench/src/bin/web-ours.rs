//! Our client over HTTP, through the public `call` path with its deadlines on.

use mcp_bench::client::{Meter, WEB_IN_FLIGHT, Work, web_responder};
use mcp_client::{McpClient, Recipe};
use mcp_protocol::Json;

async fn call(client: &McpClient, arguments: &Json) {
    let outcome = client.call("echo", arguments.clone()).await.unwrap();
    assert_eq!(outcome.content()[0].as_text(), Some("hello there"));
}

async fn run(client: &McpClient, arguments: &Json, work: &Work, calls: u64) {
    if work.is_sequential {
        for _ in 0..calls {
            call(client, arguments).await;
        }
        return;
    }
    let callers: Vec<_> = (0..WEB_IN_FLIGHT)
        .map(|_| {
            let (client, arguments) = (client.clone(), arguments.clone());
            tokio::spawn(async move {
                for _ in 0..calls / WEB_IN_FLIGHT {
                    call(&client, &arguments).await;
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
        let client = McpClient::connect(Recipe::url(url)).await.unwrap();
        let arguments = Json::from(serde_json::json!({"text": "hello there"}));
        run(&client, &arguments, &work, work.calls / 10).await;
        let meter = Meter::begin();
        run(&client, &arguments, &work, work.calls).await;
        meter.tell(work.calls);
        client.close().await;
    });
}
