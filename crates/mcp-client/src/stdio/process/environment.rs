//! The environment of a child: those variables of this process that are on a fixed list, and the variables of the
//! server config.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::config::server_config::{CommandTarget, ServerConfig};

/// Variables that programs need to find their files, their language and the network, and that contain no secrets.
const PASSED_ON: &[&str] = &[
    // The user and the system.
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
    // Version managers. Without these variables, `npx` and similar launchers do not find their programs.
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
    // Certificates of a company, and hosts that are reached without a proxy.
    "CURL_CA_BUNDLE",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "NO_PROXY",
    "no_proxy",
];

/// Proxy variables, which are passed on without user name and password.
const PROXY_VARIABLES: &[&str] =
    &["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "http_proxy", "https_proxy"];

/// The schemes of proxy URLs. Other text before `://` may be part of a password.
const PROXY_SCHEMES: &[&str] = &["http", "https", "socks", "socks4", "socks4a", "socks5", "socks5h"];

/// Returns the whole environment of a child.
pub(crate) fn environment(
    config: &ServerConfig<CommandTarget>,
    ours: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<OsString, OsString> {
    let mut all: BTreeMap<OsString, OsString> = if config.target.inherits {
        ours.collect()
    } else {
        ours.filter_map(|(name, value)| Some((name.clone(), passed_on(&name, value)?))).collect()
    };
    for (name, value) in &config.target.environment {
        all.retain(|known, _| !is_same(known, name));
        all.insert(name.clone(), value.clone());
    }
    all
}

fn passed_on(name: &OsStr, value: OsString) -> Option<OsString> {
    if PASSED_ON.iter().any(|known| is_same(OsStr::new(known), name)) {
        return Some(value);
    }
    if PROXY_VARIABLES.iter().any(|known| is_same(OsStr::new(known), name)) {
        return value.to_str().and_then(without_credentials).map(OsString::from);
    }
    name.to_str().is_some_and(|name| name.starts_with("LC_")).then_some(value)
}

/// Removes the user name and password from a proxy URL. Returns `None` if it is not certain where they end.
///
/// Programs disagree about where the authority of a malformed URL ends. Therefore everything up to the last `@` is
/// removed. If the removed part could be more than a user name and a password, the value is not passed on at all.
fn without_credentials(proxy: &str) -> Option<String> {
    let is_proxy = |scheme: &str| PROXY_SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let (scheme, rest) = match proxy.find("://") {
        Some(end) if is_proxy(&proxy[..end]) => proxy.split_at(end + "://".len()),
        _ => ("", proxy),
    };
    let (credentials, host) = rest.rsplit_once('@').unwrap_or(("", rest));
    let is_clear = !credentials.contains(['/', '\\', '?', '#']) && !host.contains("%40");
    is_clear.then(|| format!("{scheme}{host}"))
}

/// Compares names of variables, which are case-sensitive except on Windows.
fn is_same(one: &OsStr, other: &OsStr) -> bool {
    if cfg!(windows) { one.eq_ignore_ascii_case(other) } else { one == other }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(config: &ServerConfig<CommandTarget>, ours: &[(&str, &str)]) -> Vec<(String, String)> {
        let ours = ours.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let text = |text: OsString| text.into_string().unwrap();
        environment(config, ours).into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn child_gets_base_and_configured_variables_but_no_secrets() {
        let ours = [
            ("AWS_SECRET_ACCESS_KEY", "canary"),
            ("LC_ALL", "C"),
            ("NVM_DIR", "/n"),
            ("PATH", "/bin"),
            ("GITHUB_TOKEN", "canary"),
            ("NODE_OPTIONS", "canary"),
        ];
        let config = ServerConfig::command("x").env("PATH", "/opt").env("KEY", "given");
        let expected = [("KEY", "given"), ("LC_ALL", "C"), ("NVM_DIR", "/n"), ("PATH", "/opt")];
        assert_eq!(child(&config, &ours), expected.map(|(name, value)| (name.into(), value.into())));
    }

    #[test]
    fn inherit_environment_passes_on_every_variable() {
        let config = ServerConfig::command("x").inherit_environment();
        assert_eq!(child(&config, &[("SECRET", "s")]), [("SECRET".into(), "s".into())]);
    }

    #[test]
    fn proxy_variables_are_passed_on_without_credentials() {
        for (proxy, passed_on) in [
            ("http://user:p@ss@proxy:3128", "http://proxy:3128"),
            ("user:secret@proxy:3128", "proxy:3128"),
            ("HTTP://user:p%40ss@proxy:3128", "HTTP://proxy:3128"),
            ("socks5h://user@[::1]:1080/", "socks5h://[::1]:1080/"),
            ("http:user:secret@proxy:3128", "proxy:3128"),
            ("http://proxy:3128/path?query#fragment", "http://proxy:3128/path?query#fragment"),
            ("proxy:3128", "proxy:3128"),
            ("", ""),
        ] {
            let got = child(&ServerConfig::command("x"), &[("HTTPS_PROXY", proxy)]);
            assert_eq!(got, [("HTTPS_PROXY".into(), passed_on.into())]);
        }
    }

    #[test]
    fn no_form_of_a_proxy_url_leaks_its_credentials() {
        let (name, password) = ("nameCANARY", ["s", "CANARY"]);
        for between in ["/", "//", "#", "?", "\\", "://", ":/", "%2F", "%40", "@", ":", " ", "[", "]", "ä"] {
            for scheme in [
                "",
                "http://",
                "HTTP://",
                "https://",
                "socks5://",
                "//",
                "http:/",
                "http:",
                "http:\\\\",
                "x://",
                " http://",
            ] {
                for rest in ["@proxy:3128", "@proxy:3128/", "@proxy/a@b", "%40proxy"] {
                    for user in [format!("{name}:"), String::new(), format!("{name}%3A"), format!("{name}/:")]
                    {
                        let proxy = format!("{scheme}{user}{}{rest}", password.join(between));
                        for variable in PROXY_VARIABLES {
                            let got = child(&ServerConfig::command("x"), &[(variable, &proxy)]);
                            assert!(!format!("{got:?}").contains("CANARY"), "{proxy}: {got:?}");
                        }
                    }
                }
            }
        }
    }
}
