//! Processes that a crashed host left behind.

use std::fs;
use std::path::Path;

use mcp_protocol::safe_text::SafeText;

use super::LedgerEntry;
use super::files::read_if_dead;
use super::processes::{boot, has_marked_member, header, start_time, stat};
use crate::stdio::process::group;

/// The maximum number of lines of one file that are read. Each line may need a pass over all processes.
const MAX_ENTRIES: usize = 1024;

/// A process that a crashed host left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    pub(super) group: u32,
    pub(super) entry: LedgerEntry,
}

impl Leftover {
    /// Returns the id of the process group, which is also the process id of its leader.
    #[must_use]
    pub fn group(&self) -> u32 {
        self.group
    }

    /// Returns the command line that was started.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.entry.program
    }

    /// Kills the process group if it is still the recorded one. Returns true if it was killed.
    #[expect(clippy::must_use_candidate, reason = "called for its effect")]
    pub fn kill(&self) -> bool {
        self.is_there() && group::kill(self.group)
    }

    /// Returns true if the recorded process, or a descendant of it, is still running. Returns false for the init
    /// process and for the process group of this process, whatever the file says.
    pub(super) fn is_there(&self) -> bool {
        let ours = stat("/proc/self/stat").map(|(group, _)| group);
        let is_possible = self.group > 1 && self.group != std::process::id() && Some(self.group) != ours;
        is_possible
            && match start_time(self.group) {
                Some(started) => started == self.entry.started,
                // The process has exited. Its descendants have its mark; a group without the mark belongs to another
                // program.
                None => has_marked_member(self.group, &self.entry.mark),
            }
    }
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (process {})", SafeText::message(self.program()), self.group)
    }
}

/// Reads and deletes the ledger file of a host that has exited. Returns the recorded processes that are still running.
/// A file of a running host or of another PID namespace is not changed.
pub(super) fn leftovers(path: &Path) -> Result<Vec<Leftover>, String> {
    let Some(file) = read_if_dead(path)? else { return Ok(Vec::new()) };
    let parse = |line: &str| {
        // The last line may have been cut by a crash.
        let mut words = line.strip_suffix('\n')?.splitn(4, ' ');
        let (group, started) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (mark, program) = (words.next()?.to_owned(), words.next()?.to_owned());
        Some(Leftover { group, entry: LedgerEntry { started, mark, program } })
    };
    let mut lines = file.text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    let left = if first == header() {
        lines.take(MAX_ENTRIES).filter_map(parse).filter(Leftover::is_there).collect()
    } else if first.starts_with(&format!("boot {} ", boot())) {
        return Ok(Vec::new());
    } else if first.starts_with("boot ") || first.is_empty() {
        // The file is from another boot, so none of its processes is running.
        Vec::new()
    } else {
        return Err("not a process ledger".to_owned());
    };
    // The file is removed, so that each leftover is reported once.
    let _ = fs::remove_file(path);
    Ok(left)
}
