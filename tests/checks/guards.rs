//! What the split into crates asks for, as tests.

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;

    use crate::{cargo, counts, root, workspace};

    /// Every source file of a crate, with its path.
    fn sources(folder: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut folders = vec![root().join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    // Relative, because the checks look for words such as "test" in it.
                    let name = path.strip_prefix(root()).expect("below the root").display().to_string();
                    found.push((name, fs::read_to_string(&path).expect("a file")));
                }
            }
        }
        found
    }

    /// What is compiled for users: test modules left out.
    fn shipped(text: &str) -> &str {
        text.split("#[cfg(test)]").next().unwrap_or(text)
    }

    #[test]
    fn dependencies_and_licences_are_on_the_allowed_lists() {
        assert_eq!(workspace::check(), Vec::<String>::new());
    }

    #[test]
    fn protocol_crate_has_no_io_clock_or_async_dependencies() {
        let tree =
            cargo(&["tree", "-p", "mcp-protocol", "--all-features", "-e", "normal", "--prefix", "none"]);
        let mut crates: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        crates.sort_unstable();
        crates.dedup();
        assert!(crates.len() <= 17, "{crates:?}");
        let forbidden = [
            "tokio",
            "mio",
            "futures",
            "async-std",
            "smol",
            "hyper",
            "http",
            "socket2",
            "tracing",
            "log",
            "chrono",
            "time",
            "rand",
            "getrandom",
            "rustix",
            "libc",
        ];
        assert!(!crates.iter().any(|name| forbidden.contains(name)), "{crates:?}");
        let words = [
            "std::net",
            "std::process",
            "std::fs",
            "std::env",
            "std::thread",
            "Instant::now",
            "SystemTime",
            "async fn",
            "HashMap",
            "HashSet",
            "println!",
            "eprintln!",
        ];
        for (path, text) in sources("crates/mcp-protocol/src") {
            if path.ends_with("tests.rs") {
                continue;
            }
            let code: Vec<&str> =
                shipped(&text).lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            for word in words {
                assert!(!code.iter().any(|line| line.contains(word)), "{path} has {word}");
            }
        }
    }

    #[test]
    fn crates_have_a_readme_and_a_changelog() {
        for name in ["mcp-protocol", "mcp-client", "mcp-server", "mcp-compat"] {
            for page in ["README.md", "CHANGELOG.md"] {
                assert!(root().join("crates").join(name).join(page).is_file(), "{name} has no {page}");
            }
        }
    }

    /// Type names that several files define, and why.
    const REPEATED_TYPE_NAMES: &[(&str, &str)] = &[
        ("BoxError", "any error as a trait object, in each crate"),
        ("Changes", "async and blocking"),
        ("Connection", "one connection, seen from the client and from the server"),
        ("Driver", "the loop of a connection, in each crate"),
        ("Error", "the error type of each crate"),
        ("Feed", "async and blocking"),
        ("Handler", "a function of the user, in each crate"),
        ("HttpBody", "the body of an HTTP response, in each crate"),
        ("McpClient", "async, blocking, and the deprecated name"),
        ("McpClientConfig", "the deprecated name in mcp-compat"),
        ("McpServer", "the deprecated name in mcp-compat"),
        ("OAuthConfig", "the deprecated name in mcp-compat"),
        ("OAuthProvider", "the deprecated name in mcp-compat"),
        ("RunningCall", "async and blocking"),
        ("Session", "one legacy session over HTTP, seen from the client and from the server"),
        ("State", "the private state of the type beside it"),
        ("TokenStorage", "the deprecated name in mcp-compat"),
        ("Tool", "described by the protocol, offered by a server"),
        ("ToolCall", "async and blocking"),
        ("ToolSchema", "the deprecated name in mcp-compat"),
        ("ToolSpec", "the deprecated name in mcp-compat"),
        ("WireTrace", "the writer of a wire trace, in each crate"),
    ];

    /// Returns the types that a file defines, test modules left out.
    fn defined_types(text: &str) -> impl Iterator<Item = &str> {
        let shipped = text.split("mod tests {").next().unwrap_or(text);
        shipped.lines().filter_map(|line| {
            let item = match line.trim_start().strip_prefix("pub") {
                Some(rest) => rest.split_once(' ')?.1,
                None => line,
            };
            let item = item.strip_prefix("const ").unwrap_or(item);
            let name =
                ["struct ", "enum ", "trait ", "type "].iter().find_map(|word| item.strip_prefix(word))?;
            name.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
        })
    }

    #[test]
    fn a_repeated_type_name_is_on_the_list() {
        let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for name in ["mcp-protocol", "mcp-client", "mcp-server", "mcp-compat"] {
            for (path, text) in sources(&format!("crates/{name}/src")) {
                if path.contains("test") || path.contains("/bin/") {
                    continue;
                }
                for name in defined_types(&text) {
                    files.entry(name.to_owned()).or_default().insert(path.clone());
                }
            }
        }
        files.retain(|_, files| files.len() > 1);
        let listed: BTreeSet<&str> = REPEATED_TYPE_NAMES.iter().map(|(name, _)| *name).collect();
        let repeated: BTreeSet<&str> = files.keys().map(String::as_str).collect();
        let unlisted: Vec<_> = files.iter().filter(|(name, _)| !listed.contains(name.as_str())).collect();
        assert!(unlisted.is_empty(), "one name means one thing; rename one of them: {unlisted:#?}");
        assert_eq!(
            listed.difference(&repeated).collect::<Vec<_>>(),
            Vec::<&&str>::new(),
            "no longer repeated"
        );
    }

    #[test]
    fn protocol_crate_exports_the_expected_modules() {
        let lib = fs::read_to_string(root().join("crates/mcp-protocol/src/lib.rs")).expect("lib.rs");
        for module in ["messages", "tools", "errors", "version"] {
            assert!(lib.contains(&format!("\npub mod {module};\n")), "{module}");
        }
        let tools = fs::read_to_string(root().join("crates/mcp-protocol/src/tools.rs")).expect("tools.rs");
        assert!(tools.contains("pub type ToolSchema = Tool;"));
    }

    /// The features of a published crate, and those that are on by default.
    fn features(name: &str) -> (Vec<String>, Vec<String>) {
        let metadata: serde_json::Value =
            serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--no-deps"]))
                .expect("metadata");
        let packages = metadata["packages"].as_array().expect("packages");
        let package = packages.iter().find(|package| package["name"] == name).expect("a published crate");
        let features = package["features"].as_object().expect("features");
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let default = features["default"].as_array().expect("a list").iter().map(text).collect();
        (features.keys().cloned().collect(), default)
    }

    #[test]
    fn server_crate_features_match_the_expected_list() {
        let (features, default) = features("mcp-server");
        let decided =
            ["default", "files", "http", "jwt", "log", "schemars", "sealing", "serve", "stdio", "validate"];
        assert_eq!(features, decided);
        assert_eq!(default, ["stdio", "schemars", "sealing"]);
    }

    #[test]
    fn server_crate_has_no_oauth_keyring_tls_or_process_spawning() {
        let tree =
            cargo(&["tree", "-p", "mcp-server", "--all-features", "-e", "features", "--prefix", "none"]);
        for line in tree.lines() {
            let name = line.split(' ').next().unwrap_or_default();
            let forbidden =
                ["oauth2", "keyring", "secret-service", "dbus", "zbus", "reqwest", "rustls", "openssl"];
            assert!(!forbidden.contains(&name), "{line}");
            assert!(!line.starts_with("tokio feature \"process\""), "{line}");
        }
        for (path, text) in sources("crates/mcp-server/src") {
            assert!(!shipped(&text).contains("process::Command"), "{path}");
        }
    }

    #[test]
    fn client_crate_features_match_the_expected_list() {
        let (features, default) = features("mcp-client");
        // `host` and `mount` come with what they switch on.
        assert_eq!(
            features,
            ["blocking", "default", "encrypted-file", "http", "keyring", "oauth", "stdio", "test-peer"]
        );
        assert_eq!(default, ["stdio"]);
    }

    #[test]
    fn a_minimal_server_and_a_minimal_client_stay_small() {
        for (name, features, most) in [
            ("mcp-server", "stdio", 32),
            ("mcp-server", "stdio,serve", 45),
            ("mcp-client", "stdio", 36),
            ("mcp-client", "http", 100),
            ("mcp-client", "encrypted-file", 60),
            ("mcp-client", "http,oauth", 120),
            ("mcp-client", "http,oauth,keyring", 190),
        ] {
            let tree = cargo(&[
                "tree",
                "-p",
                name,
                "--no-default-features",
                "--features",
                features,
                "-e",
                "normal",
                "--prefix",
                "none",
            ]);
            let mut crates: Vec<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
            crates.sort_unstable();
            crates.dedup();
            assert!(crates.len() - 1 <= most, "{name} {features}: {} {crates:?}", crates.len() - 1);
        }
    }

    #[test]
    fn minimum_rust_version_is_shared_and_checked_by_a_lint() {
        let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("a file");
        assert!(workspace.contains("rust-version = \"1.89\""));
        assert!(workspace.contains("incompatible_msrv = \"warn\""));
        for name in ["mcp-protocol", "mcp-client", "mcp-server", "mcp-compat"] {
            let manifest =
                fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).expect("a file");
            assert!(manifest.contains("rust-version.workspace = true"), "{name}");
            assert!(manifest.contains("[lints]\nworkspace = true"), "{name}");
        }
    }

    #[test]
    fn dependency_counts_match_the_recorded_counts() {
        assert_eq!(counts::check(false), Vec::<String>::new());
    }

    /// A clock that jumps must not end a call, nor keep one alive: who needs a date is listed here, and nobody else reads it.
    #[test]
    fn only_listed_files_read_the_system_time() {
        let dates = [
            "credentials/folder.rs",
            "oauth/clock.rs",
            "stream/negotiate.rs",
            "streamable/negotiate.rs",
            "streamable/target.rs",
            "wire_trace.rs",
        ];
        for folder in ["crates/mcp-client/src", "crates/mcp-protocol/src"] {
            for (path, text) in sources(folder) {
                let is_listed = dates.iter().any(|file| path.ends_with(&format!("mcp-client/src/{file}")));
                let is_read = !path.ends_with("tests.rs") && shipped(&text).contains("SystemTime::now");
                assert_eq!(is_listed, is_read, "{path}");
            }
        }
    }

    #[test]
    fn only_dialect_and_negotiation_compare_versions() {
        let all = ["crates/mcp-protocol/src", "crates/mcp-server/src", "crates/mcp-client/src"].map(sources);
        for (path, text) in all.into_iter().flatten() {
            let allowed = ["/dialect", "/negotiation", "/version.rs", "tests.rs"];
            if allowed.iter().any(|part| path.contains(part)) {
                continue;
            }
            for line in shipped(&text).lines().filter(|line| !line.trim_start().starts_with("//")) {
                let compares =
                    ["== Dialect::", "!= Dialect::", "== ProtocolVersion::", "era() ==", ".is_before("];
                assert!(!compares.iter().any(|compare| line.contains(compare)), "{path}: {line}");
            }
        }
    }

    #[test]
    fn files_are_about_one_thing() {
        let mut lengths: Vec<(usize, String)> = sources("crates/mcp-protocol/src")
            .into_iter()
            .map(|(path, text)| (text.lines().count(), path))
            .collect();
        lengths.sort();
        let median = lengths[lengths.len() / 2].0;
        let (longest, path) = lengths.last().expect("a file");
        println!("{} files, median {median}, longest {longest}", lengths.len());
        assert!(median <= 300 && *longest <= 700, "median {median}, {path} has {longest}");
    }

    #[test]
    fn sources_of_client_and_server_have_at_most_400_lines() {
        for (path, text) in
            ["crates/mcp-client/src", "crates/mcp-server/src"].map(sources).into_iter().flatten()
        {
            let lines = text.lines().count();
            assert!(lines <= 400, "{path} has {lines} lines: which second thing is in it?");
        }
    }

    #[test]
    fn only_connect_knows_the_client_handle() {
        for (path, text) in sources("crates/mcp-client/src") {
            let is_above = [
                "/client",
                "/connect.rs",
                "/connect/",
                "/blocking",
                "/lib.rs",
                "/stdio/interrupt.rs",
                "test",
            ];
            if !is_above.iter().any(|place| path.contains(place)) {
                assert!(!text.contains("crate::client"), "{path} knows the handle above it");
            }
        }
    }

    #[test]
    fn client_core_knows_transports_only_by_their_seam() {
        let transports = [
            "/src/lib.rs",
            "/src/blocking.rs",
            "/src/http",
            "/src/oauth",
            "/src/stream",
            "/src/stdio",
            "/src/config/",
            "/src/connect.rs",
            "/src/connect/",
            "/src/bin/",
            "/src/test_peer",
        ];
        let names = [
            "feature = \"http\"",
            "feature = \"stdio\"",
            "stream::",
            "streamable::",
            "stdio::",
            "crate::http",
        ];
        let is_core = |path: &str| !transports.iter().any(|part| path.contains(part));
        let core: Vec<_> =
            sources("crates/mcp-client/src").into_iter().filter(|(path, _)| is_core(path)).collect();
        assert!(core.len() > 20, "{} files", core.len());
        for (path, text) in core {
            for line in shipped(&text).lines().filter(|line| !line.trim_start().starts_with("//")) {
                assert!(!names.iter().any(|name| line.contains(name)), "{path}: {line}");
            }
        }
    }

    #[test]
    fn front_pages_show_the_server_of_the_hello_example() {
        let read = |path: &str| fs::read_to_string(root().join(path)).expect("a file");
        let example = read("examples/hello/src/main.rs");
        let (_, program) = example.split_once('\n').expect("a first line that says how to run it");
        for page in ["README.md", "crates/mcp-server/README.md", "docs/guides/first-server.md"] {
            assert!(read(page).contains(program), "copy examples/hello/src/main.rs into {page}");
        }
        let crate_page: String =
            program.lines().map(|line| format!("//! {line}").trim_end().to_owned() + "\n").collect();
        assert!(read("crates/mcp-server/src/lib.rs").contains(&crate_page), "copy it into the crate page");
    }

    #[test]
    fn every_feature_is_in_the_tables_of_crate_page_and_guide() {
        let read = |path: String| fs::read_to_string(root().join(path)).expect("a file");
        let guide = read("docs/guides/adding-to-a-project.md".to_owned());
        for name in ["mcp-server", "mcp-client"] {
            let (features, default) = features(name);
            let heading = format!("## Features of `{name}`");
            let (_, section) = guide.split_once(&heading).expect("a table in the guide");
            let tables = [section.split("\n## ").next().unwrap_or_default().to_owned(), {
                let page = read(format!("crates/{name}/src/lib.rs"));
                page.lines().filter_map(|line| line.strip_prefix("//! ")).collect::<Vec<_>>().join("\n")
            }];
            for feature in features.iter().filter(|feature| *feature != "default") {
                let row =
                    format!("| `{feature}` | {} |", if default.contains(feature) { "yes" } else { "no" });
                assert!(tables.iter().all(|table| table.contains(&row)), "{name}: {row}");
            }
        }
    }

    #[test]
    fn json_in_the_guides_is_valid() {
        for entry in fs::read_dir(root().join("docs/guides")).expect("a folder") {
            let path = entry.expect("an entry").path();
            let text = fs::read_to_string(&path).expect("a file");
            for block in text.split("\n```json\n").skip(1) {
                let json = block.split("\n```").next().unwrap_or_default();
                if let Err(error) = serde_json::from_str::<serde_json::Value>(json) {
                    panic!("{}: {error}: {json}", path.display());
                }
            }
        }
    }

    #[test]
    fn guides_are_listed_by_their_titles_and_links_lead_somewhere() {
        let folder = root().join("docs/guides");
        let list = fs::read_to_string(folder.join("README.md")).expect("a file");
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("a file");
            let title = text.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a title");
            assert!(name == "README.md" || list.contains(&format!("- [{title}]({name})\n")), "{name}");
            for link in text.split("](").skip(1) {
                let target = link.split([')', '#']).next().unwrap_or_default();
                let is_elsewhere = target.is_empty() || target.contains("://") || target.contains(' ');
                assert!(is_elsewhere || folder.join(target).exists(), "{name} links to {target}");
            }
        }
    }
}
