//! Prints all messages between a client and a server, in every protocol revision:
//! `cargo run -p example-conversation`, or `cargo run -p example-conversation -- 2025-06-18` for one revision.
//!
//! Both sides are state machines without I/O, connected by a simulated link with a latency of 20 ms.

mod client;
mod server;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use mcp_protocol::ProtocolVersion;
use mcp_protocol::version::SUPPORTED;

fn main() -> ExitCode {
    if let Err(error) = run() {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let versions = match std::env::args().nth(1) {
        Some(version) => vec![ProtocolVersion::from(version)],
        None => SUPPORTED.to_vec(),
    };
    for version in versions {
        if version.dialect().is_none() {
            return Err(format!("`{version}` is not a protocol version; use one of {SUPPORTED:?}").into());
        }
        println!("── {version} ──");
        println!("= {}\n", converse(&version, |line| println!("{line}"))?);
    }
    Ok(())
}

/// Negotiates `version`, lists the tools and calls one; returns the text of its result.
fn converse(
    version: &ProtocolVersion,
    mut print: impl FnMut(String),
) -> Result<String, Box<dyn std::error::Error>> {
    let mut link = client::Link::new(Instant::now(), Duration::from_millis(20));
    let negotiation = link.negotiate(version, &mut print)?;
    let tools = link.list_tools(&negotiation, &mut print)?;
    let tool = tools.first().ok_or("the server has no tool")?;
    link.call(&negotiation, &tool.name, serde_json::json!({"a": 2, "b": 40}), &mut print)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_comes_to_the_same_sum() {
        for version in SUPPORTED {
            let mut lines = Vec::new();
            assert_eq!(converse(version, |line| lines.push(line)).unwrap(), "42");
            let spoken = lines.join("\n");
            assert_eq!(spoken.contains("\"initialize\""), version != &SUPPORTED[0], "{spoken}");
        }
    }
}
