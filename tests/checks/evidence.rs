//! The table of behaviours: which test shows each, and which change of one line turns that test red.
//!
//! `docs/evidence.tsv` is written by hand; `docs/evidence.md` is made from it. A row whose test does not exist,
//! or whose mutation no longer fits the code, is an error.

use std::collections::BTreeSet;

use serde_json::Value;

/// One behaviour.
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) what: String,
    /// The package and the path of the test in it.
    pub(crate) package: String,
    pub(crate) test: String,
    pub(crate) file: String,
    pub(crate) old: String,
    pub(crate) new: String,
}

pub(crate) fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(crate::root().join("docs/evidence.tsv")).expect("docs/evidence.tsv");
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let parts: Vec<&str> = line.split('\t').collect();
            let [id, what, package, test, file, old, new] = parts[..] else {
                panic!("a row needs seven columns: {line}")
            };
            let own = str::to_owned;
            Row {
                id: own(id),
                what: own(what),
                package: own(package),
                test: own(test),
                file: own(file),
                old: own(old),
                new: own(new),
            }
        })
        .collect()
}

pub(crate) fn check(write: bool) -> Vec<String> {
    let rows = rows();
    let tests = tests();
    let mut problems = Vec::new();
    let mut ids = BTreeSet::new();
    let mut text = String::from(
        "# Evidence\n\nEvery behaviour this workspace promises by id, the test that shows it, and a change of one line \
         that turns the test red.\nMade from `evidence.tsv` by `checks evidence --write`; `checks mutations` applies the \
         changes.\n\n| id | behaviour | test | mutation |\n|---|---|---|---|\n",
    );
    for row in &rows {
        if !ids.insert(&row.id) {
            problems.push(format!("{} stands there twice", row.id));
        }
        if !tests.contains(&(row.package.clone(), row.test.clone())) {
            problems.push(format!("{}: there is no test {} in {}", row.id, row.test, row.package));
        }
        let code = std::fs::read_to_string(crate::root().join(&row.file)).unwrap_or_default();
        problems.extend(misfit(row, &code));
        let cell = |text: &str| text.replace('|', "\\|");
        text.push_str(&format!(
            "| {} | {} | `{}` | `{}`: `{}` → `{}` |\n",
            row.id,
            cell(&row.what),
            row.test,
            row.file,
            cell(&row.old),
            cell(&row.new)
        ));
    }
    println!("{} behaviours", rows.len());
    problems.extend(crate::up_to_date("docs/evidence.md", &text, write));
    problems
}

/// Why a row's mutation cannot be applied to the code.
fn misfit(row: &Row, code: &str) -> Option<String> {
    match code.matches(&row.old).count() {
        1 if row.old == row.new => Some(format!("{}: the mutation changes nothing", row.id)),
        1 => None,
        count => Some(format!("{}: {:?} is {count} times in {}", row.id, row.old, row.file)),
    }
}

/// Package and path of every test that runs.
fn tests() -> BTreeSet<(String, String)> {
    let listing =
        crate::cargo(&["nextest", "list", "--workspace", "--all-features", "--message-format", "json"]);
    let listing: Value = serde_json::from_str(&listing).expect("a listing of tests");
    let mut tests = BTreeSet::new();
    for suite in listing["rust-suites"].as_object().into_iter().flat_map(|suites| suites.values()) {
        let package = suite["package-name"].as_str().unwrap_or("");
        for (name, case) in suite["testcases"].as_object().into_iter().flatten() {
            if case["ignored"] == false {
                tests.insert((package.to_owned(), name.clone()));
            }
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_56_a_mutation_that_no_longer_fits_the_code_is_found() {
        let row = |old: &str, new: &str| Row {
            id: "X".into(),
            what: String::new(),
            package: String::new(),
            test: String::new(),
            file: "f.rs".into(),
            old: old.into(),
            new: new.into(),
        };
        assert_eq!(misfit(&row("a = 1", "a = 2"), "let a = 1;"), None);
        assert!(misfit(&row("a = 1", "a = 1"), "let a = 1;").is_some());
        assert!(misfit(&row("a = 3", "a = 2"), "let a = 1;").is_some());
        assert!(misfit(&row("1", "2"), "1 + 1").is_some());
    }
}
