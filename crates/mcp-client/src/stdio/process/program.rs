//! Finds the program to start, in the `PATH` of the child.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::config::server_config::{CommandTarget, ServerConfig};
use crate::error::StartError;

/// Returns the absolute path of the program. Symbolic links are not resolved, because shims depend on the name by which
/// they are called.
pub(crate) fn find(
    config: &ServerConfig<CommandTarget>,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<PathBuf, StartError> {
    let here = match &config.target.directory {
        Some(directory) if directory.is_dir() => directory.clone(),
        Some(directory) => return Err(StartError::NoSuchFolder { folder: directory.clone() }),
        None => PathBuf::new(),
    };
    let here = std::path::absolute(&here).or_else(|_| std::env::current_dir()).unwrap_or(here);
    let variable = |wanted: &str| {
        let named =
            |name: &OsString| if cfg!(windows) { name.eq_ignore_ascii_case(wanted) } else { name == wanted };
        environment.iter().find(|(name, _)| named(name)).map(|(_, value)| value.as_os_str())
    };
    let extensions = extensions(cfg!(windows), variable("PATHEXT"));
    let program = Path::new(&config.target.program);
    let is_name = program.components().count() == 1 && !has_separator(&config.target.program);
    if config.target.program.is_empty() {
        return Err(StartError::NotFound { program: OsString::new(), searched: Vec::new() });
    }
    if !is_name {
        let path = here.join(program);
        return match look(&path, &extensions) {
            FileLookup::Program(path) => Ok(path),
            FileLookup::NotExecutable(path) if path.is_dir() => Err(StartError::Directory { path }),
            FileLookup::NotExecutable(path) => Err(StartError::NotExecutable { path }),
            FileLookup::Nothing => {
                Err(StartError::NotFound { program: config.target.program.clone(), searched: vec![path] })
            }
        };
    }
    let mut not_executable = None;
    let mut searched = Vec::new();
    for folder in std::env::split_paths(variable("PATH").unwrap_or_default()) {
        // A shell treats an empty entry as the current folder. Here it is skipped, because it is usually a mistake.
        if folder.as_os_str().is_empty() {
            continue;
        }
        match look(&here.join(&folder).join(program), &extensions) {
            FileLookup::Program(path) => return Ok(path),
            FileLookup::NotExecutable(path) => not_executable = not_executable.or(Some(path)),
            FileLookup::Nothing => {}
        }
        searched.push(folder);
    }
    Err(match not_executable {
        Some(path) if path.is_dir() => StartError::Directory { path },
        Some(path) => StartError::NotExecutable { path },
        None => StartError::NotFound { program: config.target.program.clone(), searched },
    })
}

fn has_separator(program: &OsStr) -> bool {
    program.to_string_lossy().contains(std::path::is_separator)
}

enum FileLookup {
    Program(PathBuf),
    NotExecutable(PathBuf),
    Nothing,
}

/// Returns the extensions to try: those that Windows appends to a name. On other systems, only the empty extension.
fn extensions(is_windows: bool, pathext: Option<&OsStr>) -> Vec<String> {
    if !is_windows {
        return vec![String::new()];
    }
    let listed = pathext.and_then(OsStr::to_str).unwrap_or(".COM;.EXE;.BAT;.CMD").to_owned();
    std::iter::once(String::new())
        .chain(listed.split(';').filter(|ending| !ending.is_empty()).map(str::to_owned))
        .collect()
}

fn look(path: &Path, extensions: &[String]) -> FileLookup {
    let mut found = FileLookup::Nothing;
    for extension in extensions {
        let mut name = path.as_os_str().to_owned();
        name.push(extension);
        let candidate = PathBuf::from(name);
        match candidate.metadata() {
            Ok(metadata) if metadata.is_file() && is_executable(&candidate, &metadata) => {
                return FileLookup::Program(candidate);
            }
            Ok(_) => found = FileLookup::NotExecutable(candidate),
            Err(_) => {}
        }
    }
    found
}

#[cfg(unix)]
fn is_executable(_: &Path, metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(path: &Path, _: &std::fs::Metadata) -> bool {
    path.extension().is_some()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn place(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn find_in(path: &str, config: ServerConfig<CommandTarget>) -> Result<PathBuf, StartError> {
        find(&config, &BTreeMap::from([("PATH".into(), path.into())]))
    }

    #[test]
    fn program_is_found_in_the_path_of_the_child_and_links_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        let real = place(here, "real", 0o755);
        std::os::unix::fs::symlink(&real, here.join("shim")).unwrap();
        let path = format!("/nowhere:{}", here.display());
        assert_eq!(find_in(&path, ServerConfig::command("shim")).unwrap(), here.join("shim"));
        assert_eq!(
            find_in("", ServerConfig::command("./real").current_dir(here)).unwrap(),
            here.join("./real")
        );
    }

    #[test]
    fn start_errors_tell_causes_apart_and_list_searched_folders() {
        let folder = tempfile::tempdir().unwrap();
        let plain = place(folder.path(), "plain", 0o644);
        let path = folder.path().display().to_string();
        match find_in(&format!("{path}:/also"), ServerConfig::command("missing")).unwrap_err() {
            StartError::NotFound { program, searched } => {
                assert_eq!(program, "missing");
                assert_eq!(searched, [folder.path(), Path::new("/also")]);
            }
            other => panic!("{other:?}"),
        }
        let not_executable = find_in(&path, ServerConfig::command("plain")).unwrap_err();
        assert!(matches!(not_executable, StartError::NotExecutable { path } if path == plain));
        let no_folder = find_in(&path, ServerConfig::command("plain").current_dir("/not/there")).unwrap_err();
        assert!(
            matches!(no_folder, StartError::NoSuchFolder { folder } if folder == Path::new("/not/there"))
        );
        // An empty entry of PATH is not the current folder.
        assert!(matches!(
            find_in("", ServerConfig::command("plain").current_dir(folder.path())),
            Err(StartError::NotFound { .. })
        ));
    }

    #[test]
    fn directory_as_a_program_is_reported_as_one() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("folder");
        fs::create_dir(&inner).unwrap();
        for (program, directory) in
            [("folder".into(), None), (inner.clone(), None), (".".into(), Some(&inner))]
        {
            let mut config = ServerConfig::command(program);
            if let Some(directory) = directory {
                config = config.current_dir(directory);
            }
            let error = find_in(&folder.path().display().to_string(), config).unwrap_err();
            assert!(matches!(&error, StartError::Directory { .. }), "{error:?}");
            assert!(
                error.to_string().ends_with(" is a directory; give the path of a program in it"),
                "{error}"
            );
        }
    }

    #[test]
    fn command_line_or_url_as_a_program_names_the_remedy() {
        for (program, remedy) in [
            ("npx -y server", "\"npx\", and pass its arguments with `.arg` or `.args`"),
            ("/usr/bin/env node", "\"/usr/bin/env\", and pass its arguments with `.arg` or `.args`"),
            ("https://example.com/mcp", "it is a URL: use `ServerConfig::url`"),
            ("~/bin/server", "`~` is not expanded: give the full path"),
            ("", "its name is empty"),
        ] {
            let text = find_in("/usr/none", ServerConfig::command(program)).unwrap_err().to_string();
            assert!(text.contains("not found") && text.ends_with(remedy), "{text}");
        }
    }

    #[test]
    fn program_is_searched_with_pathext_extensions_on_windows() {
        let folder = tempfile::tempdir().unwrap();
        let shim = place(folder.path(), "npx.CMD", 0o755);
        let endings = extensions(true, Some(OsStr::new(".EXE;;.CMD")));
        assert_eq!(endings, ["", ".EXE", ".CMD"]);
        assert!(
            matches!(look(&folder.path().join("npx"), &endings), FileLookup::Program(path) if path == shim)
        );
        assert!(extensions(true, None).contains(&".CMD".to_owned()));
        assert_eq!(extensions(false, Some(OsStr::new(".EXE"))), [""]);
    }

    #[test]
    fn missing_program_is_reported_as_not_found_with_a_remedy() {
        let text = find_in("/usr/none:/also/none", ServerConfig::command("no-such-program"))
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            "program \"no-such-program\" not found in PATH (searched: /usr/none, /also/none); install it, add its folder \
             to PATH, or give its full path"
        );
        let text = find_in("", ServerConfig::command("no-such-program")).unwrap_err().to_string();
        assert!(text.contains("\"no-such-program\" not found: PATH is empty; "), "{text}");
        let text =
            find_in("/usr/none", ServerConfig::command("/not/there\u{1b}[2J")).unwrap_err().to_string();
        assert_eq!(text, "program \"/not/there\\u{1b}[2J\" not found; check the path");
        let many = (0..1000).map(|number| format!("/none/{number}")).collect::<Vec<_>>().join(":");
        let text = find_in(&many, ServerConfig::command("x")).unwrap_err().to_string();
        assert!(text.contains("/none/7 and 992 more") && text.len() < 400, "{text}");
    }
}
