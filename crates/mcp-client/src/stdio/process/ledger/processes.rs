//! Running processes, as the `/proc` file system of Linux describes them. Elsewhere none is found.

use std::fs;
use std::path::Path;

use super::MARK;

/// The first line of a file: in which boot and namespace its process ids mean something.
pub(super) fn header() -> String {
    format!("boot {} {}\n", boot(), namespace())
}

/// Identifies the time since the machine was started.
pub(super) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Identifies the process-id namespace of this process, such as `pid:[4026531836]`.
fn namespace() -> String {
    fs::read_link("/proc/self/ns/pid").unwrap_or_default().to_string_lossy().into_owned()
}

/// When a process was started, in ticks since the machine was; `None` if it does not run.
pub(super) fn start_time(id: u32) -> Option<u64> {
    stat(format!("/proc/{id}/stat")).map(|(_, started)| started)
}

/// True if somebody lives in a group who bears a mark.
pub(super) fn has_marked_member(group: u32, mark: &str) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let marked = format!("{MARK}={mark}");
    let has_mark = |process: &Path| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == marked.as_bytes())
    };
    processes
        .flatten()
        .map(|process| process.path())
        .any(|process| stat(process.join("stat")).is_some_and(|(its, _)| its == group) && has_mark(&process))
}

/// The group of a process that lives, and when it was started.
pub(super) fn stat(path: impl AsRef<Path>) -> Option<(u32, u64)> {
    let stat = String::from_utf8_lossy(&fs::read(path).ok()?).into_owned();
    // Behind the name, which may hold anything: the state is the third field, the group the fifth, the start the 22nd.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let is_dead = matches!(words.next(), Some("Z" | "X"));
    let group = words.nth(1)?.parse().ok()?;
    let started = words.nth(16)?.parse().ok()?;
    (!is_dead).then_some((group, started))
}
