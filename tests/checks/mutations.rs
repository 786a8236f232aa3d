//! Applies mutations to a copy of the repository and demands that their tests fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::evidence::{Row, rows};

pub(crate) fn check(which: Option<&str>) -> Vec<String> {
    let rows = rows();
    let chosen: Vec<&Row> = match which.map(|which| (which, which.parse::<usize>())) {
        None => rows.iter().collect(),
        Some((_, Ok(count))) => sample(&rows, count),
        Some((id, Err(_))) => rows.iter().filter(|row| row.id.contains(id)).collect(),
    };
    let copy = crate::root().join("target/mutations/copy");
    copy_sources(&copy);
    let mut problems = Vec::new();
    for row in chosen {
        let needs_data = row.test.starts_with("dialects::") || row.test.starts_with("examples::");
        if needs_data && !data().join("schema").is_dir() {
            eprintln!("NOT RUN: the mutation for {} (its test needs the published schemas)", row.id);
            continue;
        }
        match survives(&copy, row) {
            false => println!("{}: killed by {}", row.id, row.test),
            true => problems.push(format!("{}: {} still passes with {:?}", row.id, row.test, row.new)),
        }
    }
    problems
}

/// Rows spread over the table. The same table always gives the same rows; a changed one gives others.
fn sample(rows: &[Row], count: usize) -> Vec<&Row> {
    let step = (rows.len() / count.max(1)).max(1);
    let offset = rows.iter().map(|row| row.old.len() + row.new.len()).sum::<usize>() % step;
    rows.iter().skip(offset).step_by(step).take(count).collect()
}

fn copy_sources(copy: &Path) {
    let root = crate::root();
    let listing = Command::new("git").args(["ls-files"]).current_dir(&root).output().expect("git");
    for file in String::from_utf8_lossy(&listing.stdout).lines() {
        let to = copy.join(file);
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        let text = fs::read(root.join(file)).expect("a tracked file");
        if fs::read(&to).ok().as_ref() != Some(&text) {
            fs::write(to, text).expect("a copy");
        }
    }
}

/// The published schemas, which are not in the copy.
fn data() -> PathBuf {
    let beside = crate::root().join("../shared/data");
    std::env::var_os("MCP_SPEC_DATA").map_or(beside, PathBuf::from)
}

/// True if the test passes in spite of the mutation.
fn survives(copy: &Path, row: &Row) -> bool {
    let file = copy.join(&row.file);
    let code = fs::read_to_string(&file).expect("the mutated file");
    fs::write(&file, code.replacen(&row.old, &row.new, 1)).expect("the mutated file");
    let output = Command::new(env!("CARGO"))
        .args([
            "nextest",
            "run",
            "-p",
            &row.package,
            "--all-features",
            "--no-tests",
            "fail",
            "-E",
            &format!("test(={})", row.test),
        ])
        .current_dir(copy)
        // A folder of its own: cargo takes crates at the same place in their workspaces for the same, and would use
        // what was built of the mutated copy for the repository itself.
        .env("CARGO_TARGET_DIR", crate::root().join("target/mutations/build"))
        .env("MCP_SPEC_DATA", data())
        .output()
        .expect("cargo");
    fs::write(&file, code).expect("the file as it was");
    let errors = String::from_utf8_lossy(&output.stderr);
    // A change that does not compile proves nothing.
    output.status.success() || errors.contains("could not compile")
}
