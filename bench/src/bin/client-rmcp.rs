//! rmcp's client, as its README shows.

use std::time::Instant;

use mcp_bench::client::{IN_FLIGHT, Meter, Work, responder, tell_median};
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService, ServiceExt};
use rmcp::transport::TokioChildProcess;

type Client = RunningService<RoleClient, ()>;

async fn call(client: &rmcp::Peer<RoleClient>, arguments: &serde_json::Map<String, serde_json::Value>) {
    let params = CallToolRequestParams::new("echo").with_arguments(arguments.clone());
    let result = client.call_tool(params).await.unwrap();
    assert_eq!(result.content[0].as_text().unwrap().text, "hello there");
}

async fn run(client: &Client, work: &Work, calls: u64) {
    let arguments = serde_json::json!({"text": "hello there"}).as_object().cloned().unwrap();
    if work.is_sequential {
        for _ in 0..calls {
            call(client.peer(), &arguments).await;
        }
        return;
    }
    let callers: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let (peer, arguments) = (client.peer().clone(), arguments.clone());
            tokio::spawn(async move {
                for _ in 0..calls / IN_FLIGHT {
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
    work.runtime().block_on(async {
        if work.is_spawn {
            let mut times = Vec::new();
            for _ in 0..work.calls {
                let start = Instant::now();
                let process = TokioChildProcess::new(tokio::process::Command::new(responder())).unwrap();
                let client: Client = ().serve(process).await.unwrap();
                times.push(start.elapsed());
                client.cancel().await.unwrap();
            }
            return tell_median(times);
        }
        let process = TokioChildProcess::new(tokio::process::Command::new(responder())).unwrap();
        let client: Client = ().serve(process).await.unwrap();
        run(&client, &work, work.calls / 10).await;
        let meter = Meter::begin();
        run(&client, &work, work.calls).await;
        meter.tell(work.calls);
        client.cancel().await.unwrap();
    });
}
