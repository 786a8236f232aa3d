//! What a login costs: our client over HTTP with a fixed header, and with the token of a login that is valid:
//! `cargo run --release --bin token-load [ROUNDS]`
//!
//! Pin it with `taskset -c 0`.

use mcp_bench::client::run;
use mcp_bench::table::{Table, keep};

const TABLE: Table = Table {
    contenders: &[
        ("fixed header", "web-ours", &["modern", "header"]),
        ("login", "web-ours", &["modern", "login"]),
        ("fixed header, threads", "web-ours", &["modern", "multi", "header"]),
        ("login, threads", "web-ours", &["modern", "multi", "login"]),
    ],
    measures: &["32 in flight, CPU µs", "32 in flight, calls/s", "sequential, CPU µs", "sequential, mean µs"],
    // Threads are compared with threads.
    base: |number| if number < 2 { 0 } else { 2 },
    base_name: "fixed header",
};

fn main() {
    let table = TABLE.run(|(_, program, arguments)| {
        let (cpu, time) = run(program, arguments, 32_000, false);
        let (sequential, mean) = run(program, arguments, 10_000, true);
        vec![cpu, 1e6 / time, sequential, mean]
    });
    keep("token", &table);
}
