//! A record of the processes that were started, so that the next start finds those that a crashed host left behind.
//!
//! Each living host has one locked file; each process group has one line in it. Whoever opens the folder reads the files of
//! hosts that are gone. A process id alone proves nothing, because ids are reused: a process is the recorded one only if
//! it was started at the same time. Descendants of a recorded process that is gone are known by a mark in their
//! environment. Ids mean something only in the process-id namespace and the boot in which they were recorded: entries of
//! another namespace are neither judged nor deleted.

mod files;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_protocol::visible::Visible;

use super::group;
pub use files::SkippedFile;
use files::{LEDGER_EXTENSION, MAX_FILES, OwnFile, prepare_folder, read_if_dead, unique_name};

/// A variable in the environment of each recorded process. It proves whose descendants are left when that process is gone.
pub(crate) const MARK: &str = "MCP_LEDGER_MARK";
/// The most lines of one file that are read. Each may need a pass over all processes.
const MAX_ENTRIES: usize = 1024;

/// A folder in which this host writes down what it has started.
///
/// It reports what a crashed host has left, and ends it only when told. On Linux; elsewhere nothing is found.
///
/// The folder is for one user: it is created with mode 700, and an existing folder that belongs to another user or is
/// writable by others is refused, not changed. Several hosts may share it, also from different containers: a host that lives
/// holds a lock on its file, and what was started in another process-id namespace is left to the hosts in there.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # let folder = std::env::temp_dir().join(format!("ledger-example-{}", std::process::id()));
/// use mcp_client::{Ledger, McpClient, ServerConfig};
///
/// let (ledger, left) = Ledger::open(&folder)?;
/// for process in left {
///     eprintln!("left by a host that crashed: {process}");
///     process.kill();
/// }
/// let connect = McpClient::builder(ServerConfig::command("weather")).ledger(&ledger);
/// # drop((connect, ledger)); std::fs::remove_dir_all(&folder) }
/// ```
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Book>);

#[derive(Debug)]
struct Book {
    folder: PathBuf,
    /// Unpredictable, and the first part of every mark.
    name: String,
    marks: AtomicU32,
    pages: Mutex<Pages>,
    skipped: Vec<SkippedFile>,
}

#[derive(Debug, Default)]
struct Pages {
    entries: BTreeMap<u32, Entry>,
    /// The entries as they were last written; `None` while there are none.
    file: Option<OwnFile>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    started: u64,
    /// What stands in [`MARK`] in the environment of the process, and of what it has started.
    mark: String,
    program: String,
}

/// A process that a crashed host has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    group: u32,
    entry: Entry,
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
    fn is_there(&self) -> bool {
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

impl Ledger {
    /// Opens a folder, creating it if needed, and returns the processes that crashed hosts left behind.
    ///
    /// A file that cannot be read is left where it is: see [`skipped`](Self::skipped).
    ///
    /// # Errors
    /// When the folder cannot be created or read, belongs to another user, or is writable by others.
    pub fn open(folder: impl AsRef<Path>) -> io::Result<(Self, Vec<Leftover>)> {
        let folder = folder.as_ref();
        prepare_folder(folder)?;
        let (mut left, mut skipped) = (Vec::new(), Vec::new());
        let is_ledger = |path: &PathBuf| path.extension().is_some_and(|ending| ending == LEDGER_EXTENSION);
        let mut paths: Vec<PathBuf> = fs::read_dir(folder)?
            .map(|file| file.map(|file| file.path()))
            .filter(|path| path.as_ref().map_or(true, is_ledger))
            .take(MAX_FILES + 1)
            .collect::<io::Result<_>>()?;
        // One more was listed only to see whether there are more.
        if let Some(path) = paths.drain(MAX_FILES.min(paths.len())..).next() {
            let reason =
                format!("the folder has more than {MAX_FILES} ledger files; further files were not read");
            skip(path, reason, &mut skipped);
        }
        for path in paths {
            match leftovers(&path) {
                Ok(found) => left.extend(found),
                Err(reason) => skip(path, reason, &mut skipped),
            }
        }
        // A host that crashed while it replaced its file has left both.
        left.sort_by_key(|left: &Leftover| (left.group, left.entry.started));
        left.dedup();
        let book = Book {
            folder: folder.to_owned(),
            name: unique_name(),
            marks: AtomicU32::new(0),
            pages: Mutex::default(),
            skipped,
        };
        Ok((Self(Arc::new(book)), left))
    }

    /// Files in the folder that were not read when it was opened: not a regular file, too large, not a ledger. If there were
    /// more than 1024 files, one of those beyond that stands for all of them.
    #[must_use]
    pub fn skipped(&self) -> &[SkippedFile] {
        &self.0.skipped
    }

    /// A mark for one process, to be given to it as [`MARK`].
    pub(crate) fn mark(&self) -> String {
        format!("{}-{}", self.0.name, self.0.marks.fetch_add(1, Ordering::Relaxed))
    }

    /// Writes down a group for as long as the value lives.
    pub(crate) fn record(&self, group: u32, mark: String, program: String) -> Recorded {
        let entry = Entry { started: start_time(group).unwrap_or(0), mark, program };
        let started = entry.started;
        self.0.change(|entries| drop(entries.insert(group, entry)));
        Recorded { book: Arc::clone(&self.0), group, started }
    }
}

fn skip(path: PathBuf, reason: String, skipped: &mut Vec<SkippedFile>) {
    let file = SkippedFile::new(path, reason);
    tracing::warn!("process ledger: {file}");
    skipped.push(file);
}

impl Book {
    fn change(&self, change: impl FnOnce(&mut BTreeMap<u32, Entry>)) {
        let mut pages = self.lock();
        change(&mut pages.entries);
        if pages.entries.is_empty() {
            pages.file = None;
            return;
        }
        let lines = pages.entries.iter().map(|(group, entry)| {
            let Entry { started, mark, program } = entry;
            format!("{group} {started} {mark} {}\n", program.replace('\n', " "))
        });
        let text: String = std::iter::once(header()).chain(lines).collect();
        // The old file is removed only when the new one is complete: a crash leaves at least one of them.
        match OwnFile::create(&self.folder, &text) {
            Ok(file) => pages.file = Some(file),
            // A ledger that cannot be written must not keep a server from being started or ended.
            Err(error) => tracing::warn!(%error, "the process ledger could not be written"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A group that is written down. Dropped, it is struck out.
#[derive(Debug)]
pub(crate) struct Recorded {
    book: Arc<Book>,
    group: u32,
    started: u64,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.book.change(|entries| {
            // The number of one that is gone may have been given to the next.
            entries.retain(|group, entry| *group != self.group || entry.started != self.started);
        });
    }
}

/// Reads and deletes the file of a host that is gone, and returns those of its processes that are not. A file of a living
/// host or of another process-id namespace is left alone.
fn leftovers(path: &Path) -> Result<Vec<Leftover>, String> {
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

/// The first line of a file: in which boot and namespace its process ids mean something.
fn header() -> String {
    format!("boot {} {}\n", boot(), namespace())
}

/// Identifies the time since the machine was started.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Identifies the process-id namespace of this process, such as `pid:[4026531836]`.
fn namespace() -> String {
    fs::read_link("/proc/self/ns/pid").unwrap_or_default().to_string_lossy().into_owned()
}

/// When a process was started, in ticks since the machine was; `None` if it does not run.
fn start_time(id: u32) -> Option<u64> {
    stat(format!("/proc/{id}/stat")).map(|(_, started)| started)
}

/// True if somebody lives in a group who bears a mark.
fn has_marked_member(group: u32, mark: &str) -> bool {
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
fn stat(path: impl AsRef<Path>) -> Option<(u32, u64)> {
    let stat = String::from_utf8_lossy(&fs::read(path).ok()?).into_owned();
    // Behind the name, which may hold anything: the state is the third field, the group the fifth, the start the 22nd.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let is_dead = matches!(words.next(), Some("Z" | "X"));
    let group = words.nth(1)?.parse().ok()?;
    let started = words.nth(16)?.parse().ok()?;
    (!is_dead).then_some((group, started))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;
    use crate::connect::server_config::ServerConfig;
    use crate::stdio::process::Process;

    fn file_of(ledger: &Ledger) -> Option<PathBuf> {
        ledger.0.lock().file.as_ref().map(|file| file.path().to_owned())
    }

    #[tokio::test]
    async fn process_is_recorded_at_start_and_removed_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, left) = Ledger::open(folder.path()).unwrap();
        assert_eq!(left, []);
        let config = ServerConfig::command("sleep").arg("60");
        let (process, _pipes) = Process::start_in(&config, Some(&ledger)).unwrap();
        let group = process.group().unwrap();
        let path = file_of(&ledger).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let (first, rest) = text.split_once('\n').unwrap();
        assert!(first.starts_with("boot ") && first.contains(" pid:[") && first.len() > 30, "{text}");
        assert!(rest.starts_with(&format!("{group} ")) && rest.ends_with(" sleep 60\n"), "{text}");
        // Another host sees that this one lives, and leaves its file alone.
        assert_eq!(Ledger::open(folder.path()).unwrap().1, []);
        assert!(path.exists());
        drop(process);
        assert!(!path.exists());
        assert_eq!(file_of(&ledger), None);
    }

    #[test]
    fn leftover_of_a_crashed_host_is_reported_and_killed_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let mut left = std::process::Command::new("sleep");
        std::os::unix::process::CommandExt::process_group(&mut left, 0);
        let mut child = left.arg("60").spawn().unwrap();
        let started = start_time(child.id()).unwrap();
        // A host that cannot live, one of its processes, and two whose numbers were given to others.
        let text = format!(
            "{3}{0} {started} m sleep 60\n{0} {1} m other\n{2} 1 m us\nnonsense\n",
            child.id(),
            started + 1,
            std::process::id(),
            header(),
        );
        let file = folder.path().join(format!("4194304-1-0.{LEDGER_EXTENSION}"));
        // From before the machine was started again.
        fs::write(&file, text.replace(&boot(), "another")).unwrap();
        assert_eq!(Ledger::open(folder.path()).unwrap().1, []);
        fs::write(&file, &text).unwrap();
        let (_ledger, found) = Ledger::open(folder.path()).unwrap();
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [format!("sleep 60 (process {})", child.id())]
        );
        assert_eq!(child.try_wait().unwrap(), None, "it is only told");
        assert!(!file.exists());
        assert!(found[0].kill());
        child.wait().unwrap();
        assert!(!found[0].kill(), "it is no longer the one");
    }

    #[test]
    fn leftover_child_of_an_exited_server_is_found_by_its_mark() {
        let mut shell = std::process::Command::new("sh");
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        let shell = shell.args(["-c", "sleep 60 & read line"]).env(MARK, "1-2-3-4");
        let mut shell = shell.stdin(Stdio::piped()).spawn().unwrap();
        let started = start_time(shell.id()).unwrap();
        let of = |mark: &str| Entry { started, mark: mark.to_owned(), program: "npx".to_owned() };
        let left = Leftover { group: shell.id(), entry: of("1-2-3-4") };
        // It reads after it has started the other.
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(start_time(left.group).is_none());
        // While it becomes another program, nobody can see what it bears.
        let is_seen = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            left.is_there()
        });
        assert!(is_seen);
        // The same number, but somebody else's children.
        let stranger = Leftover { group: left.group, entry: of("1-2-3-5") };
        assert!(!stranger.is_there() && !stranger.kill());
        assert!(left.kill());
        while left.is_there() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    #[tokio::test]
    async fn two_ledgers_of_one_process_use_separate_files() {
        let folder = tempfile::tempdir().unwrap();
        let (one, _) = Ledger::open(folder.path()).unwrap();
        let (other, left) = Ledger::open(folder.path()).unwrap();
        assert_eq!(left, []);
        let config = ServerConfig::command("sleep").arg("60");
        let (first, _pipes) = Process::start_in(&config, Some(&one)).unwrap();
        let (second, _pipes) = Process::start_in(&config, Some(&other)).unwrap();
        let (one, other) = (file_of(&one).unwrap(), file_of(&other).unwrap());
        assert!(one.exists() && other.exists());
        drop(second);
        assert!(one.exists() && !other.exists());
        drop(first);
        assert!(!one.exists());
    }

    #[test]
    fn process_with_a_reused_pid_is_not_killed() {
        let mut child = std::process::Command::new("sleep");
        std::os::unix::process::CommandExt::process_group(&mut child, 0);
        let mut child = child.arg("60").spawn().unwrap();
        let entry = Entry {
            started: start_time(child.id()).unwrap() + 1,
            mark: String::new(),
            program: "other".to_owned(),
        };
        assert!(!Leftover { group: child.id(), entry }.kill());
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn init_and_the_current_process_are_never_reported_as_leftover() {
        for group in [1, std::process::id()] {
            let entry =
                Entry { started: start_time(group).unwrap(), mark: String::new(), program: "x".to_owned() };
            assert!(!Leftover { group, entry }.is_there(), "{group}");
        }
    }

    /// A process in a group of its own, and the line that records it.
    fn recorded_child() -> (std::process::Child, String) {
        let mut child = std::process::Command::new("sleep");
        std::os::unix::process::CommandExt::process_group(&mut child, 0);
        let child = child.arg("60").spawn().unwrap();
        let line = format!("{} {} m sleep 60\n", child.id(), start_time(child.id()).unwrap());
        (child, line)
    }

    fn names(left: &[Leftover]) -> Vec<u32> {
        left.iter().map(Leftover::group).collect()
    }

    #[test]
    fn fifos_folders_links_and_foreign_files_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, line) = recorded_child();
        let of = |name: &str| folder.path().join(format!("{name}.mcp-ledger"));
        let made = std::process::Command::new("mkfifo").arg(of("1-fifo")).status().unwrap();
        assert!(made.success());
        fs::create_dir(of("2-folder")).unwrap();
        let elsewhere = folder.path().join("elsewhere");
        fs::write(&elsewhere, format!("{}{line}", header())).unwrap();
        std::os::unix::fs::symlink(&elsewhere, of("3-link")).unwrap();
        fs::write(of("4-text"), "anything\n").unwrap();
        fs::File::create(of("5-large")).unwrap().set_len(1 << 30).unwrap();
        fs::write(of("6-good"), format!("{}{line}", header())).unwrap();
        let (ledger, left) = Ledger::open(folder.path()).unwrap();
        assert_eq!(names(&left), [child.id()], "the others do not hide it");
        let mut skipped: Vec<String> = ledger.skipped().iter().map(ToString::to_string).collect();
        skipped.sort();
        assert_eq!(skipped.len(), 5, "{skipped:?}");
        for (skipped, (name, reason)) in skipped.iter().zip([
            ("1-fifo", "not a regular file"),
            ("2-folder", "regular file"),
            ("3-link", "regular file"),
            ("4-text", "not a process ledger"),
            ("5-large", "larger than"),
        ]) {
            assert!(skipped.contains(name) && skipped.contains(reason), "{skipped}");
            assert!(of(name).symlink_metadata().is_ok(), "it is left where it is");
        }
        assert!(elsewhere.exists() && !of("6-good").exists());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn entries_of_another_namespace_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, line) = recorded_child();
        let file = folder.path().join("4194304-1-0.mcp-ledger");
        // The same process id means another process in there.
        let text = format!("boot {} pid:[1]\n{line}", boot());
        fs::write(&file, &text).unwrap();
        let (ledger, left) = Ledger::open(folder.path()).unwrap();
        assert_eq!((left, ledger.skipped()), (Vec::new(), [].as_slice()));
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn locked_file_belongs_to_a_living_host() {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, line) = recorded_child();
        // The process id in the name means nothing here: the host may live in another namespace.
        let path = folder.path().join("4194304-1-0.mcp-ledger");
        fs::write(&path, format!("{}{line}", header())).unwrap();
        let host = fs::File::open(&path).unwrap();
        host.lock().unwrap();
        assert_eq!(Ledger::open(folder.path()).unwrap().1, []);
        assert!(path.exists());
        drop(host);
        assert_eq!(names(&Ledger::open(folder.path()).unwrap().1), [child.id()]);
        assert!(!path.exists());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn planted_link_at_a_guessed_name_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        let own = std::process::id();
        let started = start_time(own).unwrap();
        for number in 0..64 {
            for extension in ["new", "mcp-ledger"] {
                let guess = folder.path().join(format!("{own}-{started}-{number}.{extension}"));
                std::os::unix::fs::symlink(&victim, guess).unwrap();
            }
        }
        let (ledger, _) = Ledger::open(folder.path()).unwrap();
        let (process, _pipes) =
            Process::start_in(&ServerConfig::command("sleep").arg("60"), Some(&ledger)).unwrap();
        assert!(file_of(&ledger).unwrap().symlink_metadata().unwrap().is_file());
        drop(process);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
    }

    #[test]
    fn file_cut_by_a_crash_and_its_predecessor_are_read_together() {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, line) = recorded_child();
        fs::write(folder.path().join("old.mcp-ledger"), format!("{}{line}", header())).unwrap();
        let cut = format!("{}{line}{}", header(), line.trim_end().trim_end_matches("60"));
        fs::write(folder.path().join("new.mcp-ledger"), cut).unwrap();
        fs::write(folder.path().join("empty.mcp-ledger"), "").unwrap();
        let (ledger, left) = Ledger::open(folder.path()).unwrap();
        assert_eq!(names(&left), [child.id()]);
        assert_eq!(ledger.skipped(), []);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn files_beyond_the_limit_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("boot {} pid:[1]\n", boot());
        let place =
            |number: usize| fs::write(folder.path().join(format!("{number}.mcp-ledger")), &text).unwrap();
        (0..MAX_FILES).for_each(place);
        assert_eq!(Ledger::open(folder.path()).unwrap().0.skipped(), []);
        (MAX_FILES..MAX_FILES + 3).for_each(place);
        let (ledger, _) = Ledger::open(folder.path()).unwrap();
        let [skipped] = ledger.skipped() else { panic!("{:?}", ledger.skipped()) };
        assert_eq!(skipped.path().parent(), Some(folder.path()));
        assert!(skipped.to_string().contains("more than 1024 ledger files"), "{skipped}");
    }
}
