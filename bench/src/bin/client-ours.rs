//! Our client, through the public `call` path with its deadlines on.

use std::time::Instant;

use mcp_bench::callers::Ours;
use mcp_bench::client::{IN_FLIGHT, Work, responder, tell_median};
use mcp_client::{CommandTarget, McpClient, NegotiationCache, ServerConfig};

async fn spawn(config: &ServerConfig<CommandTarget>, work: &Work) {
    let negotiation_cache = NegotiationCache::new();
    let mut times = Vec::new();
    for _ in 0..work.calls {
        let connect = McpClient::builder(config.clone());
        let connect = if work.is_given { connect.negotiation_cache(&negotiation_cache) } else { connect };
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
        let config = ServerConfig::command(responder()).args(modern.iter().copied());
        if work.is_spawn {
            return spawn(&config, &work).await;
        }
        let client = McpClient::connect(config).await.unwrap();
        work.measure(&Ours::new(&client), IN_FLIGHT).await;
        client.close().await;
    });
}
