//! Clients over stdio, side by side against one responder, in interleaved rounds: `cargo run --release --bin client-load [ROUNDS]`
//!
//! Pin it with `taskset -c 0`. CPU time is the client's own, from the kernel.

use mcp_bench::client::run;
use mcp_bench::table::{Table, keep};
use serde_json::json;

const TABLE: Table = Table {
    contenders: &[
        ("hand-written", "client-hand", &[]),
        ("ours, legacy", "client-ours", &[]),
        ("ours, modern", "client-ours", &["modern"]),
        ("ours, threads", "client-ours", &["multi"]),
        ("rmcp", "client-rmcp", &["multi"]),
        ("rmcp, one thread", "client-rmcp", &[]),
    ],
    measures: &["64 in flight, CPU µs", "64 in flight, calls/s", "sequential, CPU µs", "sequential, mean µs"],
    base: |_| 0,
    base_name: "hand",
};

/// From the start of a process until it is usable, in µs, medians of 200.
fn spawns() -> serde_json::Value {
    let time = |program, arguments: &[&str]| run(program, arguments, 200, false).0;
    let rows = [
        ("rmcp", time("client-rmcp", &["spawn"])),
        ("ours, era known", time("client-ours", &["spawn", "given"])),
        ("ours, era found out", time("client-ours", &["spawn"])),
        ("ours, modern", time("client-ours", &["spawn", "modern"])),
    ];
    println!("\nstart to usable, µs (times rmcp)");
    for (name, median) in rows {
        println!("{name:<24}{:>22}", format!("{median:.0} ({:.2})", median / rows[0].1));
    }
    json!({"measure": "start to usable, µs", "medians": rows.map(|(_, median)| median)})
}

fn main() {
    let mut table = TABLE.run(|(_, program, arguments)| {
        let (cpu, time) = run(program, arguments, 64_000, false);
        let (sequential, mean) = run(program, arguments, 10_000, true);
        vec![cpu, 1e6 / time, sequential, mean]
    });
    table.push(spawns());
    keep("client", &table);
}
