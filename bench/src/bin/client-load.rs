//! Clients over stdio, side by side against one responder, in interleaved rounds: `cargo run --release --bin client-load [ROUNDS]`
//!
//! Pin it with `taskset -c 0`. CPU time is the client's own, from the kernel.

use std::process::Command;

use serde_json::json;

const CONTENDERS: &[(&str, &str, &[&str])] = &[
    ("hand-written", "client-hand", &[]),
    ("ours, legacy", "client-ours", &[]),
    ("ours, modern", "client-ours", &["modern"]),
    ("ours, threads", "client-ours", &["multi"]),
    ("rmcp", "client-rmcp", &["multi"]),
    ("rmcp, one thread", "client-rmcp", &[]),
];

const MEASURES: &[&str] =
    &["64 in flight, CPU µs", "64 in flight, calls/s", "sequential, CPU µs", "sequential, mean µs"];

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
    let rounds: usize = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(5);
    let mut results = vec![vec![Vec::new(); MEASURES.len()]; CONTENDERS.len()];
    for _ in 0..rounds {
        for ((_, program, arguments), results) in CONTENDERS.iter().zip(&mut results) {
            let (cpu, time) = run(program, arguments, 64_000, false);
            let (sequential, mean) = run(program, arguments, 10_000, true);
            for (value, values) in [cpu, 1e6 / time, sequential, mean].into_iter().zip(results) {
                values.push(value);
            }
        }
    }
    print!("{:<24}", "median (times hand)");
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
        for median in &medians {
            print!("{:>22}", format!("{median:.2} ({:.2})", median / medians[0]));
        }
        println!();
        table.push(json!({"measure": measure, "medians": medians}));
    }
    table.push(spawns());
    std::fs::create_dir_all("target").ok();
    std::fs::write("target/client.json", serde_json::to_string_pretty(&table).unwrap()).unwrap();
}
