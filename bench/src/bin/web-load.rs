//! Clients over HTTP, side by side against one responder, in interleaved rounds: `cargo run --release --bin web-load [ROUNDS]`
//!
//! Pin it with `taskset -c 0`. CPU time is the client's own, from the kernel. Connections are kept alive.

use std::process::Command;

use serde_json::json;

const CONTENDERS: &[(&str, &str, &[&str])] = &[
    ("bare hyper", "web-bare", &[]),
    ("ours, legacy", "web-ours", &[]),
    ("ours, modern", "web-ours", &["modern"]),
    ("rmcp", "web-rmcp", &[]),
    ("bare hyper, threads", "web-bare", &["multi"]),
    ("ours, threads", "web-ours", &["multi"]),
    ("rmcp, threads", "web-rmcp", &["multi"]),
];

const MEASURES: &[&str] =
    &["32 in flight, CPU µs", "32 in flight, calls/s", "sequential, CPU µs", "sequential, mean µs"];

/// CPU and time per call in µs.
fn run(program: &str, arguments: &[&str], calls: u64, sequential: bool) -> (f64, f64) {
    let path = std::env::current_exe().unwrap().with_file_name(program);
    let mut command = Command::new(path);
    command.arg(calls.to_string()).args(arguments);
    if sequential {
        command.arg("sequential");
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut words = text.split_whitespace().map(|word| word.parse().unwrap());
    match (words.next(), words.next()) {
        (Some(cpu), Some(time)) => (cpu, time),
        _ => panic!("{program} failed: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

fn main() {
    let rounds: usize = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(5);
    let mut results = vec![vec![Vec::new(); MEASURES.len()]; CONTENDERS.len()];
    for _ in 0..rounds {
        for ((_, program, arguments), results) in CONTENDERS.iter().zip(&mut results) {
            let (cpu, time) = run(program, arguments, 16_000, false);
            let (sequential, mean) = run(program, arguments, 5_000, true);
            for (value, values) in [cpu, 1e6 / time, sequential, mean].into_iter().zip(results) {
                values.push(value);
            }
        }
    }
    print!("{:<24}", "median (times bare)");
    for (name, _, _) in CONTENDERS {
        print!("{name:>22}");
    }
    println!();
    let mut table = Vec::new();
    for (at, measure) in MEASURES.iter().enumerate() {
        print!("{measure:<24}");
        let medians: Vec<f64> = results
            .iter_mut()
            .map(|results| {
                results[at].sort_by(f64::total_cmp);
                results[at][rounds / 2]
            })
            .collect();
        for (median, (name, _, _)) in medians.iter().zip(CONTENDERS) {
            // Threads are compared with threads.
            let bare = if name.contains("threads") { medians[4] } else { medians[0] };
            print!("{:>22}", format!("{median:.2} ({:.2})", median / bare));
        }
        println!();
        table.push(json!({"measure": measure, "medians": medians}));
    }
    std::fs::create_dir_all("target").ok();
    std::fs::write("target/web.json", serde_json::to_string_pretty(&table).unwrap()).unwrap();
}
