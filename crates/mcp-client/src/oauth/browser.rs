//! Opening a page in the browser of the user, without a shell.

use std::process::{Child, Command, Stdio};

use url::Url;

use super::endpoint::endpoint_url;

/// Returns true if this process can probably open a browser that the user sees: not over SSH, not without a display,
/// and not in a container, unless the variable `BROWSER` says how.
pub(super) fn can_open() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_container = || {
        is_set("container")
            || ["/.dockerenv", "/run/.containerenv"].iter().any(|file| std::path::Path::new(file).exists())
    };
    can_open_with(cfg!(all(unix, not(target_os = "macos"))), is_set, is_container)
}

fn can_open_with(
    needs_display: bool,
    is_set: impl Fn(&str) -> bool,
    is_container: impl Fn() -> bool,
) -> bool {
    if is_set("BROWSER") {
        return true;
    }
    let is_remote = ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"].into_iter().any(&is_set);
    let has_display = !needs_display || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    !is_remote && has_display && !is_container()
}

/// The command that opened a page. It is not waited for, because it may be the browser itself, which stays open.
pub(super) struct OpenedPage(Child);

impl Drop for OpenedPage {
    fn drop(&mut self) {
        // Collects the exit status if the command has ended, as most do at once.
        let _ = self.0.try_wait();
    }
}

/// Opens a page in the browser. The page must be an `https` URL, or an `http` URL on this machine.
///
/// # Errors
/// Returns the problem.
pub(super) fn open(page: &str) -> Result<OpenedPage, String> {
    // Written again by the URL library: it begins with `http` and contains no spaces or line breaks.
    let page = endpoint_url(page)?;
    let mut problems = Vec::new();
    for (program, arguments) in commands(std::env::var("BROWSER").ok().as_deref(), &page) {
        let started = Command::new(&program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(child) => return Ok(OpenedPage(child)),
            Err(error) => problems.push(format!("`{program}`: {error}")),
        }
    }
    Err(problems.join("; "))
}

/// Returns the commands that open a page, in the order in which they are tried. `browser` is the variable `BROWSER`: a
/// list of commands, separated by colons, in which `%s` stands for the page.
fn commands(browser: Option<&str>, page: &Url) -> Vec<(String, Vec<String>)> {
    let own = browser.unwrap_or_default().split(':').filter_map(|command| {
        let mut words = command.split_whitespace();
        let program = words.next()?.to_owned();
        let mut arguments: Vec<String> = words.map(|word| word.replace("%s", page.as_str())).collect();
        if !command.contains("%s") {
            arguments.push(page.to_string());
        }
        Some((program, arguments))
    });
    let own: Vec<_> = own.collect();
    if !own.is_empty() {
        return own;
    }
    let page = || page.to_string();
    if cfg!(windows) {
        // Not `start`, which is a command of the shell.
        vec![("rundll32".to_owned(), vec!["url.dll,FileProtocolHandler".to_owned(), page()])]
    } else if cfg!(target_os = "macos") {
        vec![("open".to_owned(), vec![page()])]
    } else {
        vec![("xdg-open".to_owned(), vec![page()])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browser_is_opened_only_where_the_user_sees_it() {
        let can = |set: &[&str], is_container: bool| {
            can_open_with(true, |name| set.contains(&name), || is_container)
        };
        assert!(can(&["DISPLAY"], false) && can(&["WAYLAND_DISPLAY"], false));
        assert!(!can(&[], false) && !can(&["DISPLAY"], true));
        for variable in ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"] {
            assert!(!can(&["DISPLAY", variable], false), "{variable}");
            assert!(can(&["BROWSER", variable], true), "{variable}");
        }
        assert!(can_open_with(false, |_| false, || false));
    }

    #[test]
    fn page_is_one_argument_of_a_program() {
        let page = Url::parse("https://as.example/a?b=$(c)&d='e f'").unwrap();
        let shown = "https://as.example/a?b=$(c)&d=%27e%20f%27".to_owned();
        for (browser, expected) in [
            (Some("firefox"), vec![("firefox", vec![shown.clone()])]),
            (
                Some("w3m:lynx -x %s -y"),
                vec![
                    ("w3m", vec![shown.clone()]),
                    ("lynx", vec!["-x".to_owned(), shown.clone(), "-y".to_owned()]),
                ],
            ),
        ] {
            let expected: Vec<_> =
                expected.into_iter().map(|(program, words)| (program.to_owned(), words)).collect();
            assert_eq!(commands(browser, &page), expected);
        }
        for browser in [None, Some(""), Some(" : ")] {
            let found = commands(browser, &page);
            assert_eq!((found.len(), found[0].1.last()), (1, Some(&shown)));
        }
    }

    #[test]
    fn only_web_pages_are_opened() {
        for page in [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "http://as.example/",
            "-x",
            "https://a b",
            "data:,x",
            "",
        ] {
            assert!(open(page).is_err(), "{page}");
        }
    }
}
