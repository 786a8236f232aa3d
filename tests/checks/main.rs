//! Looks at the workspace as a whole: `cargo run -p mcp-tests --bin checks -- <check>`.
//!
//! - `workspace`: dependency arrows, licences, duplicate versions
//! - `counts [--write]`: crates per feature set, against `docs/dependency-counts.txt`
//! - `features`: the feature sets that must compile, one `cargo` argument line each
//! - `references`: no private reference and no long test name in the repository
//! - `behaviours [--write]`: the test of every behaviour passed in the last run, and `docs/behaviours.md` is up to date
#![allow(clippy::expect_used, clippy::panic, reason = "a check fails by panicking with a message")]

mod behaviours;
mod counts;
mod guards;
mod references;
mod workspace;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_write = arguments.iter().any(|argument| argument == "--write");
    let problems = match arguments.first().map(String::as_str) {
        Some("workspace") => workspace::check(),
        Some("counts") => counts::check(is_write),
        Some("features") => {
            for line in counts::feature_sets() {
                println!("{line}");
            }
            Vec::new()
        }
        Some("references") => references::check(),
        Some("behaviours") => behaviours::check(is_write),
        _ => vec![
            "usage: checks workspace | counts [--write] | features | references | behaviours [--write]"
                .into(),
        ],
    };
    for problem in &problems {
        eprintln!("error: {problem}");
    }
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The root of the repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository")
}

/// Standard output of a cargo command in the repository.
fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().expect("cargo");
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Compares a generated text with the file that holds it, or writes it.
fn up_to_date(path: &str, text: &str, write: bool) -> Vec<String> {
    let file = root().join(path);
    if write {
        std::fs::write(file, text).expect("a writable file");
        return Vec::new();
    }
    if std::fs::read_to_string(file).unwrap_or_default() == text {
        Vec::new()
    } else {
        vec![format!("{path} is out of date; run the same check with --write and look at the difference")]
    }
}
