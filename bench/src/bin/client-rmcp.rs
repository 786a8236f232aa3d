//! rmcp's client, as its README shows.

use std::time::Instant;

use mcp_bench::callers::Rmcp;
use mcp_bench::client::{IN_FLIGHT, Work, responder, tell_median};
use rmcp::service::{RoleClient, RunningService, ServiceExt};
use rmcp::transport::TokioChildProcess;

type Client = RunningService<RoleClient, ()>;

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
        work.measure(&Rmcp::new(&client), IN_FLIGHT).await;
        client.cancel().await.unwrap();
    });
}
