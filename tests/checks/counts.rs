//! How many crates each feature set of each published crate brings.

use std::collections::BTreeSet;

use serde_json::Value;

const CRATES: &[&str] = &["mcp-protocol", "mcp-client", "mcp-server", "mcp-compat"];

pub(crate) fn check(write: bool) -> Vec<String> {
    let mut text = String::from(
        "# Crates besides itself, per feature set (cargo tree -e normal). Written by `checks counts --write`.\n",
    );
    for line in feature_sets() {
        let mut arguments = vec!["tree"];
        arguments.extend(line.split(' '));
        arguments.extend(["-e", "normal", "--prefix", "none"]);
        let tree = crate::cargo(&arguments);
        let crates: BTreeSet<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
        text.push_str(&format!("{:>3}  {line}\n", crates.len().saturating_sub(1)));
    }
    crate::up_to_date("docs/dependency-counts.txt", &text, write)
}

/// Every feature of every published crate alone, none, the default and all.
pub(crate) fn feature_sets() -> Vec<String> {
    let metadata: Value =
        serde_json::from_str(&crate::cargo(&["metadata", "--format-version", "1", "--no-deps"]))
            .expect("metadata");
    let mut sets = Vec::new();
    for name in CRATES {
        let package = metadata["packages"]
            .as_array()
            .and_then(|packages| packages.iter().find(|package| package["name"] == *name))
            .expect("a published crate");
        sets.push(format!("-p {name} --no-default-features"));
        sets.push(format!("-p {name}"));
        for feature in package["features"].as_object().into_iter().flat_map(|features| features.keys()) {
            if feature != "default" {
                sets.push(format!("-p {name} --no-default-features --features {feature}"));
            }
        }
        sets.push(format!("-p {name} --all-features"));
    }
    sets
}
