//! Which variables a child gets: a fixed list from ours, and what the recipe gives.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::recipe::Recipe;

/// What a program needs to find its files, its language and its network, and what carries no secret.
const PASSED_ON: &[&str] = &[
    // The person and the system.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    // Windows.
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
    // Version managers: without them `npx` and its like find nothing.
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "BUN_INSTALL",
    "CARGO_HOME",
    "DENO_DIR",
    "DENO_INSTALL",
    "FNM_DIR",
    "FNM_MULTISHELL_PATH",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "MISE_CACHE_DIR",
    "MISE_CONFIG_DIR",
    "MISE_DATA_DIR",
    "NODENV_ROOT",
    "NVM_BIN",
    "NVM_DIR",
    "N_PREFIX",
    "PNPM_HOME",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "SDKMAN_DIR",
    "VOLTA_HOME",
    // Certificates of a company.
    "CURL_CA_BUNDLE",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "NO_PROXY",
    "no_proxy",
];

/// Passed on without the name and password that may stand in them.
const PROXIES: &[&str] =
    &["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "http_proxy", "https_proxy"];

/// The whole environment of a child.
pub(crate) fn environment(
    recipe: &Recipe,
    ours: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<OsString, OsString> {
    let mut all: BTreeMap<OsString, OsString> = if recipe.inherits {
        ours.collect()
    } else {
        ours.filter_map(|(name, value)| Some((name.clone(), passed_on(&name, value)?))).collect()
    };
    for (name, value) in &recipe.environment {
        all.retain(|known, _| !is_same(known, name));
        all.insert(name.clone(), value.clone());
    }
    all
}

fn passed_on(name: &OsStr, value: OsString) -> Option<OsString> {
    if PASSED_ON.iter().any(|known| is_same(OsStr::new(known), name)) {
        return Some(value);
    }
    if PROXIES.iter().any(|known| is_same(OsStr::new(known), name)) {
        return value.to_str().map(|url| without_credentials(url).into());
    }
    name.to_str().is_some_and(|name| name.starts_with("LC_")).then_some(value)
}

fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    // An `@` behind the host belongs to a path; a name and password stand before it.
    let end = rest.find('/').unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(rest, |at| &rest[at + 1..]);
    if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") }
}

/// Names of variables differ by case everywhere but on Windows.
fn is_same(one: &OsStr, other: &OsStr) -> bool {
    if cfg!(windows) { one.eq_ignore_ascii_case(other) } else { one == other }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(recipe: &Recipe, ours: &[(&str, &str)]) -> Vec<(String, String)> {
        let ours = ours.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let text = |text: OsString| text.into_string().unwrap();
        environment(recipe, ours).into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn s0_23_a_child_gets_the_base_what_it_was_given_and_no_secret() {
        let ours = [
            ("AWS_SECRET_ACCESS_KEY", "canary"),
            ("LC_ALL", "C"),
            ("NVM_DIR", "/n"),
            ("PATH", "/bin"),
            ("GITHUB_TOKEN", "canary"),
            ("NODE_OPTIONS", "canary"),
        ];
        let recipe = Recipe::command("x").env("PATH", "/opt").env("KEY", "given");
        let expected = [("KEY", "given"), ("LC_ALL", "C"), ("NVM_DIR", "/n"), ("PATH", "/opt")];
        assert_eq!(child(&recipe, &ours), expected.map(|(name, value)| (name.into(), value.into())));
    }

    #[test]
    fn v_21_a_whole_environment_is_passed_on_only_when_told() {
        let recipe = Recipe::command("x").inherit_environment();
        assert_eq!(child(&recipe, &[("SECRET", "s")]), [("SECRET".into(), "s".into())]);
    }

    #[test]
    fn s0_23_proxies_are_passed_on_without_name_and_password() {
        for (proxy, passed_on) in [
            ("http://user:p@ss@proxy:3128", "http://proxy:3128"),
            ("http://proxy:3128/a@b", "http://proxy:3128/a@b"),
            ("user:secret@proxy:3128", "proxy:3128"),
        ] {
            let got = child(&Recipe::command("x"), &[("HTTPS_PROXY", proxy)]);
            assert_eq!(got, [("HTTPS_PROXY".into(), passed_on.into())]);
        }
    }
}
