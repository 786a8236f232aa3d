//! The list of behaviours: each with the test that shows it.
//!
//! `docs/behaviours.tsv` is written by hand; `docs/behaviours.md` is generated from it. A behaviour whose test does not
//! exist or did not pass in the last run is an error.

use std::collections::{BTreeMap, BTreeSet};

/// One behaviour.
struct Behaviour<'a> {
    /// Identifies the row, and nothing else: it is not shown.
    key: &'a str,
    subject: &'a str,
    sentence: &'a str,
    package: &'a str,
    test: &'a str,
}

pub(crate) fn check(write: bool) -> Vec<String> {
    let root = crate::root();
    let table = std::fs::read_to_string(root.join("docs/behaviours.tsv")).expect("docs/behaviours.tsv");
    let (behaviours, mut problems) = read(&table);
    println!("{} behaviours", behaviours.len());
    problems.extend(crate::up_to_date("docs/behaviours.md", &page(&behaviours), write));
    match std::fs::read_to_string(root.join("target/nextest/default/junit.xml")) {
        Ok(report) => problems.extend(not_shown(&behaviours, &passed(&report))),
        Err(error) => problems.push(format!(
            "cannot read the report of the tests ({error}); run `cargo nextest run --workspace --all-features` first"
        )),
    }
    problems
}

fn read(table: &str) -> (Vec<Behaviour<'_>>, Vec<String>) {
    let mut keys = BTreeSet::new();
    let (mut behaviours, mut problems) = (Vec::new(), Vec::new());
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [key, subject, sentence, package, test] = columns[..] else {
            problems.push(format!("a row of behaviours.tsv needs five columns: {line}"));
            continue;
        };
        if !keys.insert(key) {
            problems.push(format!("two rows of behaviours.tsv have the key `{key}`"));
        }
        behaviours.push(Behaviour { key, subject, sentence, package, test });
    }
    (behaviours, problems)
}

fn page(behaviours: &[Behaviour<'_>]) -> String {
    let mut subjects: BTreeMap<&str, Vec<&Behaviour<'_>>> = BTreeMap::new();
    for behaviour in behaviours {
        subjects.entry(behaviour.subject).or_default().push(behaviour);
    }
    let mut text = String::from(
        "# Behaviours\n\nThe behaviours of this workspace, by subject, each with the test that shows it. Generated from \
         `behaviours.tsv` by\n`cargo run -p mcp-tests --bin checks -- behaviours --write`.\n",
    );
    for (subject, behaviours) in subjects {
        text.push_str(&format!("\n## {subject}\n\n| behaviour | test |\n|---|---|\n"));
        for Behaviour { sentence, package, test, .. } in behaviours {
            text.push_str(&format!("| {} | `{package}`: `{test}` |\n", sentence.replace('|', "\\|")));
        }
    }
    text
}

fn not_shown(behaviours: &[Behaviour<'_>], passed: &BTreeSet<(String, String)>) -> Vec<String> {
    let is_shown = |behaviour: &&Behaviour<'_>| {
        !passed.contains(&(behaviour.package.to_owned(), behaviour.test.to_owned()))
    };
    let problem = |behaviour: &Behaviour<'_>| {
        let Behaviour { key, package, test, .. } = behaviour;
        format!("{key}: the test `{test}` of {package} did not pass in the last run, or does not exist")
    };
    behaviours.iter().filter(is_shown).map(problem).collect()
}

/// Package and path of every test that passed, from a JUnit report as nextest writes it: one element per line, and a
/// test that failed has elements inside.
fn passed(report: &str) -> BTreeSet<(String, String)> {
    let attribute = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!(" {name}=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let mut passed = BTreeSet::new();
    let mut current = None;
    for line in report.lines().map(str::trim) {
        if line.starts_with("<testcase ") {
            current = attribute(line, "classname").zip(attribute(line, "name"));
        }
        if line.starts_with("<failure") || line.starts_with("<error") || line.starts_with("<skipped") {
            current = None;
        }
        if (line.starts_with("</testcase>") || line.starts_with("<testcase ") && line.ends_with("/>"))
            && let Some((binary, test)) = current.take()
        {
            // The name of a test binary is the package, followed by the target if it is not the library.
            let package = binary.split("::").next().unwrap_or_default().to_owned();
            passed.insert((package, test));
        }
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"
        <testsuite name="mcp-client::it">
            <testcase name="calls::good" classname="mcp-client::it" time="0.1">
            </testcase>
            <testcase name="calls::short" classname="mcp-client::it" time="0.1"/>
            <testcase name="calls::bad" classname="mcp-client::it" time="0.1">
                <failure type="test failure"/>
            </testcase>
        </testsuite>"#;

    #[test]
    fn behaviour_without_a_passing_test_is_reported() {
        let table = "# key\n1\tCalls\tA call ends.\tmcp-client\tcalls::good\n\
            2\tCalls\tA call fails.\tmcp-client\tcalls::bad\n3\tCalls\tA call is lost.\tmcp-client\tcalls::missing\n\
            4\tCalls\tA call is short.\tmcp-client\tcalls::short\n";
        let (behaviours, problems) = read(table);
        assert_eq!(problems, Vec::<String>::new());
        let problems = not_shown(&behaviours, &passed(REPORT));
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("calls::bad") && problems[1].contains("calls::missing"));
    }

    #[test]
    fn repeated_keys_and_missing_columns_are_reported() {
        let (behaviours, problems) = read("1\ta\tb\tc\td\n1\ta\tb\tc\te\n2\ta\n");
        assert_eq!((behaviours.len(), problems.len()), (2, 2), "{problems:?}");
    }
}
