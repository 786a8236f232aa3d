//! Drives echo servers over stdio, one after the other in interleaved rounds: `cargo run --release --bin stdio-load [ROUNDS]`
//!
//! Pin it with `taskset -c 0` so that all of them, and the driver, share one core: placement moves the numbers
//! more than code does. CPU time is the server's own, from the kernel.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use mcp_bench::table::{Table, keep};
use serde_json::{Value, json};

struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    modern: bool,
    line: Vec<u8>,
}

impl Server {
    fn start(name: &str, program: &str, arguments: &[&str]) -> (Self, Duration) {
        let path: PathBuf = std::env::current_exe().unwrap().with_file_name(program);
        let start = Instant::now();
        let mut child = Command::new(path)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::with_capacity(1 << 20, child.stdout.take().unwrap());
        let mut server = Self { child, input, output, modern: name.contains("modern"), line: Vec::new() };
        server.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
            "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}}).to_string());
        server.receive();
        let first = start.elapsed();
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        (server, first)
    }

    fn send(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn receive(&mut self) -> &[u8] {
        self.line.clear();
        self.output.read_until(b'\n', &mut self.line).unwrap();
        assert!(self.line.ends_with(b"\n"), "the server ended");
        &self.line
    }

    fn request(&self, id: u64, method: &str, mut params: Value) -> String {
        if self.modern {
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {}});
        }
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    }

    fn echo(&self, id: u64, text: &str) -> String {
        self.request(id, "tools/call", json!({"name": "echo", "arguments": {"text": text}}))
    }

    /// User and system time of the server.
    fn cpu(&self) -> Duration {
        mcp_bench::cpu(self.child.id())
    }

    fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    fn pipelined(&mut self, calls: u64, window: u64) -> (f64, f64) {
        let template = self.echo(0, "hello there");
        let (head, tail) = template.split_once("\"id\":0").unwrap();
        let (before, start) = (self.cpu(), Instant::now());
        let (mut sent, mut received) = (0, 0);
        let mut batch = Vec::new();
        while received < calls {
            batch.clear();
            while sent < calls && sent - received < window {
                sent += 1;
                writeln!(batch, "{head}\"id\":{sent}{tail}").unwrap();
            }
            self.input.write_all(&batch).unwrap();
            self.receive();
            received += 1;
            while self.output.buffer().contains(&b'\n') {
                self.receive();
                received += 1;
            }
        }
        let (cpu, time) = (self.cpu() - before, start.elapsed());
        (cpu.as_secs_f64() * 1e6 / calls as f64, calls as f64 / time.as_secs_f64())
    }

    fn sequential(&mut self, calls: u64) -> (f64, f64) {
        let line = self.echo(1, "hello there");
        let before = self.cpu();
        let mut times: Vec<Duration> = (0..calls)
            .map(|_| {
                let start = Instant::now();
                self.send(&line);
                self.receive();
                start.elapsed()
            })
            .collect();
        times.sort();
        let cpu = self.cpu() - before;
        (times[times.len() / 2].as_secs_f64() * 1e6, cpu.as_secs_f64() * 1e6 / calls as f64)
    }

    fn repeated(&mut self, line: &str, calls: u64) -> f64 {
        let before = self.cpu();
        for _ in 0..calls {
            self.send(line);
            self.receive();
        }
        (self.cpu() - before).as_secs_f64() * 1e6 / calls as f64
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const TABLE: Table = Table {
    contenders: &[
        ("hand-written", "echo-hand", &["--tools", "1000"]),
        ("hand-written, modern", "echo-hand", &["--tools", "1000"]),
        ("ours, legacy", "echo-ours", &["--tools", "1000"]),
        ("ours, modern", "echo-ours", &["--tools", "1000"]),
        ("rmcp", "echo-rmcp", &["--tools", "1000"]),
        ("rmcp, best", "echo-rmcp", &["--tools", "1000", "--best"]),
    ],
    measures: &[
        "64 in flight, CPU µs",
        "64 in flight, calls/s",
        "sequential, p50 µs",
        "sequential, CPU µs",
        "list of 1000, CPU µs",
        "echo 1 MiB, CPU µs",
        "peak at 10 MiB, MB",
        "idle memory, MB",
        "first answer, ms",
    ],
    // Modern requests are longer: ours are compared with a program that reads the same ones.
    base: |contender| if matches!(contender, 1 | 3) { 1 } else { 0 },
    base_name: "hand",
};

fn measure(name: &str, program: &str, arguments: &[&str]) -> Vec<f64> {
    let (mut server, _) = Server::start(name, program, arguments);
    server.pipelined(2_000, 64);
    let (cpu, rate) = server.pipelined(20_000, 64);
    let (p50, sequential) = server.sequential(3_000);
    let list = server.request(1, "tools/list", json!({}));
    server.repeated(&list, 3);
    let list = server.repeated(&list, 30);
    let mib = server.echo(1, &"the quick brown fox ".repeat((1 << 20) / 20));
    server.repeated(&mib, 2);
    let mib = server.repeated(&mib, 10);
    // Fresh ones for memory and start.
    let (idle, first) = Server::start(name, program, &[]);
    let idle_memory = idle.memory("VmRSS") as f64 / 1e3;
    drop(idle);
    let (mut large, _) = Server::start(name, program, &[]);
    let ten = large.echo(1, &"the quick brown fox ".repeat((10 << 20) / 20));
    large.repeated(&ten, 3);
    let peak = large.memory("VmHWM") as f64 / 1e3;
    vec![cpu, rate, p50, sequential, list, mib, peak, idle_memory, first.as_secs_f64() * 1e3]
}

fn main() {
    keep("stdio", &TABLE.run(|(name, program, arguments)| measure(name, program, arguments)));
}
