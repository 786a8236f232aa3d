//! Dependency arrows, licences and duplicate versions, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What each published crate may depend on, within the workspace.
const ARROWS: &[(&str, &[&str])] = &[
    ("mcp-protocol", &[]),
    ("mcp-client", &["mcp-protocol"]),
    ("mcp-server", &["mcp-protocol"]),
    ("mcp-compat", &["mcp-client", "mcp-protocol", "mcp-server"]),
];

const LICENCES: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Zlib",
    "Unlicense",
    "BSL-1.0",
    "0BSD",
    "CC0-1.0",
    // For data only: certificates, compiled in where the platform has none of its own.
    "CDLA-Permissive-2.0",
];

/// Crates of which two versions are known to be in the lock file, with the reason.
const DUPLICATES: &[(&str, &str)] = &[
    ("base64", "hyper-util's proxies took 0.23 early; oauth2 wants 0.22"),
    ("block-buffer", "oauth2's sha2 0.10 and Secret Service's sha2 0.11"),
    ("cpufeatures", "oauth2's sha2 0.10 and argon2's blake2 0.11"),
    ("crypto-common", "oauth2's sha2 0.10 and argon2's blake2 0.11"),
    ("digest", "oauth2's sha2 0.10 and argon2's blake2 0.11"),
    ("sha2", "oauth2 wants 0.10; Secret Service 0.11"),
    ("thiserror", "oauth2 wants 1"),
    ("thiserror-impl", "oauth2 wants thiserror 1"),
    ("getrandom", "jsonschema's ahash, with the feature `validate` only"),
    ("syn", "jsonschema's strum, with the feature `validate` only; a build tool"),
];

pub(crate) fn check() -> Vec<String> {
    let metadata: Value =
        serde_json::from_str(&crate::cargo(&["metadata", "--format-version", "1", "--all-features"]))
            .expect("metadata");
    let packages = metadata["packages"].as_array().expect("packages");
    let mut problems = arrows(packages);
    problems.extend(licences(packages));
    problems.extend(duplicates());
    problems
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or("")
}

fn arrows(packages: &[Value]) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, allowed) in ARROWS {
        let Some(package) = packages.iter().find(|package| text(package, "name") == *name) else {
            problems.push(format!("{name} is not in the workspace"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = text(dependency, "name");
            // Not even for development: tests that need both sides live in `tests/`.
            if to.starts_with("mcp-") && !allowed.contains(&to) {
                problems.push(format!("{name} depends on {to}; allowed: {allowed:?}"));
            }
        }
    }
    problems
}

fn licences(packages: &[Value]) -> Vec<String> {
    let is_allowed = |expression: &str| {
        // One of the alternatives must be made of allowed parts.
        expression.replace('/', " OR ").split(" OR ").any(|alternative| {
            alternative
                .trim_matches(|c| c == '(' || c == ')' || c == ' ')
                .split(" AND ")
                .all(|part| LICENCES.contains(&part.trim_matches(|c| c == '(' || c == ')' || c == ' ')))
        })
    };
    packages
        .iter()
        .filter(|package| !is_allowed(text(package, "license")))
        .map(|package| format!("{} has the licence {:?}", text(package, "name"), package["license"]))
        .collect()
}

/// Two versions of a crate below what we publish cost every user; those that only tests bring do not count.
fn duplicates() -> Vec<String> {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, _) in ARROWS {
        let tree = crate::cargo(&["tree", "-p", name, "--all-features", "-e", "normal", "--prefix", "none"]);
        for line in tree.lines() {
            let mut words = line.split(' ');
            if let (Some(name), Some(version)) = (words.next(), words.next()) {
                versions.entry(name.into()).or_default().insert(version.into());
            }
        }
    }
    versions
        .into_iter()
        .filter(|(name, versions)| versions.len() > 1 && !DUPLICATES.iter().any(|(known, _)| known == name))
        .map(|(name, versions)| format!("{name} is there in versions {versions:?}"))
        .collect()
}
