//! Private references and long test names, which mean nothing to a reader of this repository.

use std::process::Command;

/// The longest name of a test.
const MAX_NAME: usize = 60;

/// Letters that begin the ids of private lists; a hyphen and a number follow.
const ID_LETTERS: [&str; 11] = ["X", "S", "S0", "S1", "S2", "S3", "S4", "F", "N", "V", "A"];

pub(crate) fn check() -> Vec<String> {
    let root = crate::root();
    let listing = Command::new("git").args(["ls-files"]).current_dir(&root).output().expect("git");
    let mut problems = Vec::new();
    for file in String::from_utf8_lossy(&listing.stdout).lines() {
        // Keys of the table, which are not shown.
        if file == "docs/behaviours.tsv" || file.ends_with(".lock") {
            continue;
        }
        // A file that was deleted and not committed yet, or one that is not text.
        let Ok(text) = std::fs::read_to_string(root.join(file)) else { continue };
        problems.extend(problems_in(file, &text));
    }
    problems
}

fn problems_in(file: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut is_test = false;
    for (number, line) in text.lines().enumerate() {
        let place = format!("{file}:{}", number + 1);
        if let Some(reference) = private_reference(line) {
            problems.push(format!(
                "{place}: `{reference}` is a private reference; cite the public specification"
            ));
        }
        if !file.ends_with(".rs") {
            continue;
        }
        let trimmed = line.trim_start();
        is_test |= trimmed.starts_with("#[test]") || trimmed.starts_with("#[tokio::test");
        if let Some(name) = function(trimmed) {
            if has_number_prefix(name) {
                problems.push(format!("{place}: `{name}` begins with a private id"));
            }
            if is_test && name.len() > MAX_NAME {
                problems
                    .push(format!("{place}: the name of a test has {} letters of {MAX_NAME}", name.len()));
            }
            is_test = false;
        }
    }
    problems
}

/// A section sign, or an id such as a letter, a hyphen and a number.
fn private_reference(line: &str) -> Option<&str> {
    if line.contains('\u{a7}') {
        return Some("\u{a7}");
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    line.split(|c| !is_part(c)).find(|word| {
        let Some((letters, rest)) = word.split_once('-') else { return false };
        ID_LETTERS.contains(&letters) && rest.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// The name of the function that a line declares.
fn function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_declaration = before.split_whitespace().all(|word| {
        matches!(word, "pub" | "async" | "const" | "unsafe" | "extern") || word.starts_with("pub(")
    });
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    is_declaration.then(|| &rest[..end])
}

fn has_number_prefix(name: &str) -> bool {
    let mut parts = name.split('_');
    let prefix = parts.next().unwrap_or_default();
    let is_prefix = matches!(prefix, "x" | "f" | "n" | "v" | "a" | "row" | "rows" | "spec")
        || matches!(prefix, "s0" | "s1" | "s2" | "s3" | "s4");
    is_prefix && parts.next().is_some_and(|part| part.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_has_no_private_references() {
        assert_eq!(check(), Vec::<String>::new());
    }

    #[test]
    fn private_references_are_found() {
        let id = |letter: &str| format!("// see {letter}-12, which says so");
        for letter in ID_LETTERS {
            assert!(private_reference(&id(letter)).is_some(), "{letter}");
        }
        assert!(private_reference("Spec: \u{a7}2.4").is_some());
        for harmless in ["SHA-256", "UTF-8", "RFC 9110, section 11", "x-1", "2026-07-28", "A-B"] {
            assert_eq!(private_reference(harmless), None);
        }
    }

    #[test]
    fn names_with_ids_and_long_test_names_are_found() {
        let long = "a".repeat(MAX_NAME + 1);
        for (text, count) in [
            (format!("#[test]\nfn {}_11_call_ends() {{}}", "x"), 1),
            (format!("    async fn {}_7_call_ends() {{}}", "row"), 1),
            (format!("#[tokio::test]\nasync fn {long}() {{}}"), 1),
            (format!("fn {long}() {{}}"), 0),
            ("#[test]\nfn four_calls_end() {}".to_owned(), 0),
            ("    let text = \"fn x_1\";".to_owned(), 0),
        ] {
            assert_eq!(problems_in("a.rs", &text).len(), count, "{text}");
        }
    }
}
