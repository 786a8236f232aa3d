//! Our client, through the public `call` path with its deadlines on.

use std::time::Instant;

use mcp_bench::callers::Ours;
use mcp_bench::client::{IN_FLIGHT, Work, responder, tell_median};
use mcp_client::{McpClient, Recipe, Verdicts};

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
        work.measure(&Ours::new(&client), IN_FLIGHT).await;
        client.close().await;
    });
}
