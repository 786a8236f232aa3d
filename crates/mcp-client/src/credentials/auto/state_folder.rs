//! The folder in which programs keep their state for one user.

use std::ffi::OsString;
use std::path::PathBuf;

/// Returns the folder for state of this library. `variable` reads an environment variable; relative paths in variables
/// are ignored, because they would depend on the working directory.
pub(super) fn state_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(home) = absolute("MCP_HOME") {
        return Some(home);
    }
    let base = if cfg!(windows) {
        absolute("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        absolute("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
    };
    base.map(|base| base.join("mcp"))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    fn folder(variables: &[(&str, &str)]) -> Option<String> {
        let read = |name: &str| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.into())
        };
        state_folder(read).map(|path| path.to_str().unwrap().to_owned())
    }

    #[test]
    fn folder_follows_the_variables_in_their_order() {
        let all = [("MCP_HOME", "/mcp"), ("XDG_STATE_HOME", "/state"), ("HOME", "/home/ada")];
        assert_eq!(folder(&all).unwrap(), "/mcp");
        assert_eq!(folder(&all[1..]).unwrap(), "/state/mcp");
        assert_eq!(folder(&all[2..]).unwrap(), "/home/ada/.local/state/mcp");
        assert_eq!(folder(&[]), None);
        assert_eq!(folder(&[("MCP_HOME", "relative"), ("HOME", "")]), None);
    }
}
