//! Running processes, as the `/proc` file system of Linux describes them. On other systems, no process is found.

use std::fs;
use std::path::Path;

use super::MARK_VARIABLE;

/// Returns the first line of a ledger file: the boot and the namespace in which its process ids are valid.
pub(super) fn header() -> String {
    format!("boot {} {}\n", boot(), namespace())
}

/// Returns the id of the current boot.
pub(super) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Returns the PID namespace of this process, such as `pid:[4026531836]`.
fn namespace() -> String {
    fs::read_link("/proc/self/ns/pid").unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the start time of a process, in clock ticks since boot, or `None` if it is not running.
pub(super) fn start_time(id: u32) -> Option<u64> {
    stat(format!("/proc/{id}/stat")).map(|(_, started)| started)
}

/// Returns true if a group has a running process with this mark in its environment.
pub(super) fn has_marked_member(group: u32, mark: &str) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let marked = format!("{MARK_VARIABLE}={mark}");
    let has_mark = |process: &Path| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == marked.as_bytes())
    };
    processes
        .flatten()
        .map(|process| process.path())
        .any(|process| stat(process.join("stat")).is_some_and(|(its, _)| its == group) && has_mark(&process))
}

/// Returns the group and the start time of a running process, read from its `stat` file.
pub(super) fn stat(path: impl AsRef<Path>) -> Option<(u32, u64)> {
    let stat = String::from_utf8_lossy(&fs::read(path).ok()?).into_owned();
    // The process name may contain any character, so fields are counted after it: state (3rd), group (5th), start time
    // (22nd).
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let is_dead = matches!(words.next(), Some("Z" | "X"));
    let group = words.nth(1)?.parse().ok()?;
    let started = words.nth(16)?.parse().ok()?;
    (!is_dead).then_some((group, started))
}
