//! Our client, through the public `call` path with its deadlines on.

use std::time::Instant;

use mcp_bench::client::{IN_FLIGHT, Meter, Work, responder, tell_median};
use mcp_client::{McpClient, Recipe, Verdicts};
use mcp_protocol::Json;

async fn run(client: &McpClient, arguments: &Json, work: &Work, calls: u64) {
    let call = async |client: &McpClient, arguments: &Json| {
        let outcome = client.call("echo", arguments.clone()).await.unwrap();
        assert_eq!(outcome.content()[0].as_text(), Some("hello there"));
    };
    if work.is_sequential {
        for _ in 0..calls {
            call(client, arguments).await;
        }
        return;
    }
    let callers: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let (client, arguments) = (client.clone(), arguments.clone());
            tokio::spawn(async move {
                for _ in 0..calls / IN_FLIGHT {
                    let outcome = client.call("echo", arguments.clone()).await.unwrap();
                    assert_eq!(outcome.content()[0].as_text(), Some("hello there"));
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

async fn spawn(recipe: &Recipe, work: &Work) {
    let verdicts = Verdicts::new();
    let mut times = Vec::new();
    for _ in 0..work.calls {
        let connect = McpClient::builder(recipe.clone());
        let connect = if work.is_given { connect.verdicts(&verdicts) } else { connect };
        let start = Instant::now();
        let client = connect.connect().await.unwrap();
        times.push(start.elapsed());
        client.close().await;
    }
    tell_median(times);
}

fn main() {
    let work = Work::from_arguments();
    work.runtime().block_on(async {
        let modern: &[&str] = if work.is_modern { &["--modern"] } else { &[] };
        let recipe = Recipe::command(responder()).args(modern.iter().copied());
        if work.is_spawn {
            return spawn(&recipe, &work).await;
        }
        let client = McpClient::connect(recipe).await.unwrap();
        let arguments = Json::from(serde_json::json!({"text": "hello there"}));
        run(&client, &arguments, &work, work.calls / 10).await;
        let meter = Meter::begin();
        run(&client, &arguments, &work, work.calls).await;
        meter.tell(work.calls);
        client.close().await;
    });
}
