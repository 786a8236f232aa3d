//! Clients over HTTP, side by side against one responder, in interleaved rounds: `cargo run --release --bin web-load [ROUNDS]`
//!
//! Pin it with `taskset -c 0`. CPU time is the client's own, from the kernel. Connections are kept alive.

use mcp_bench::client::run;
use mcp_bench::table::{Table, keep};

const TABLE: Table = Table {
    contenders: &[
        ("bare hyper", "web-bare", &[]),
        ("ours, legacy", "web-ours", &[]),
        ("ours, modern", "web-ours", &["modern"]),
        ("rmcp", "web-rmcp", &[]),
        ("bare hyper, threads", "web-bare", &["multi"]),
        ("ours, threads", "web-ours", &["multi"]),
        ("rmcp, threads", "web-rmcp", &["multi"]),
    ],
    measures: &["32 in flight, CPU µs", "32 in flight, calls/s", "sequential, CPU µs", "sequential, mean µs"],
    // Threads are compared with threads.
    base: |number| if number < 4 { 0 } else { 4 },
    base_name: "bare",
};

fn main() {
    let table = TABLE.run(|(_, program, arguments)| {
        let (cpu, time) = run(program, arguments, 16_000, false);
        let (sequential, mean) = run(program, arguments, 5_000, true);
        vec![cpu, 1e6 / time, sequential, mean]
    });
    keep("web", &table);
}
