//! Processes that a crashed host left behind.

use std::fs;
use std::path::Path;

use mcp_protocol::visible::Visible;

use super::Entry;
use super::files::read_if_dead;
use super::processes::{boot, has_marked_member, header, start_time, stat};
use crate::stdio::process::group;

/// The most lines of one file that are read. Each may need a pass over all processes.
const MAX_ENTRIES: usize = 1024;

/// A process that a crashed host has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    pub(super) group: u32,
    pub(super) entry: Entry,
}

impl Leftover {
    /// Its group, and the number of the process that leads it.
    #[must_use]
    pub fn group(&self) -> u32 {
        self.group
    }

    /// What was started.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.entry.program
    }

    /// Kills it and everything in its group, if it is still the one that was written down. True if it was.
    #[expect(clippy::must_use_candidate, reason = "what counts is that it is gone")]
    pub fn kill(&self) -> bool {
        self.is_there() && group::kill(self.group)
    }

    /// True if it is still the one that was written down, or if that is gone and has left others. A ledger is a file that anybody may have changed: what is
    /// no server of ours for sure, the first process and ourselves, is never there.
    pub(super) fn is_there(&self) -> bool {
        let ours = stat("/proc/self/stat").map(|(group, _)| group);
        let is_possible = self.group > 1 && self.group != std::process::id() && Some(self.group) != ours;
        is_possible
            && match start_time(self.group) {
                Some(started) => started == self.entry.started,
                // It is gone, and whoever is in a group of this number now bears its mark or is somebody else.
                None => has_marked_member(self.group, &self.entry.mark),
            }
    }
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (process {})", Visible::message(self.program()), self.group)
    }
}

/// Reads and deletes the file of a host that is gone, and returns those of its processes that are not. A file of a living
/// host or of another process-id namespace is left alone.
pub(super) fn leftovers(path: &Path) -> Result<Vec<Leftover>, String> {
    let Some(file) = read_if_dead(path)? else { return Ok(Vec::new()) };
    let parse = |line: &str| {
        // The last line may have been cut by a crash.
        let mut words = line.strip_suffix('\n')?.splitn(4, ' ');
        let (group, started) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (mark, program) = (words.next()?.to_owned(), words.next()?.to_owned());
        Some(Leftover { group, entry: Entry { started, mark, program } })
    };
    let mut lines = file.text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    let left = if first == header() {
        lines.take(MAX_ENTRIES).filter_map(parse).filter(Leftover::is_there).collect()
    } else if first.starts_with(&format!("boot {} ", boot())) {
        return Ok(Vec::new());
    } else if first.starts_with("boot ") || first.is_empty() {
        // Times are counted from when the machine was started, and no process outlives that.
        Vec::new()
    } else {
        return Err("it is not a process ledger".to_owned());
    };
    // The processes are reported now; nobody is told of them twice.
    let _ = fs::remove_file(path);
    Ok(left)
}
