//! What was started is written down, so that the next start finds what a crashed host has left.
//!
//! A file for each host that lives, named after its number and the time it was started; a line for each group. Whoever
//! opens the folder looks at the files of hosts that are gone. A number alone says nothing, because numbers are given
//! out again: a process is the one that was written down only if it was started at the same time. What one that is gone
//! has left in its group is known by a mark in its environment.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_protocol::visible::Visible;

use super::group;

/// The ending of the files.
const ENDING: &str = "mcp-ledger";
/// A variable in the environment of what is written down: it proves whose children are left of one that is gone.
pub(crate) const MARK: &str = "MCP_LEDGER_MARK";
/// How many were opened by this program, so that each has a file of its own.
static OPENED: AtomicU32 = AtomicU32::new(0);
/// The most that is read of one file.
const MOST: u64 = 1 << 20;

/// A folder in which this host writes down what it has started.
///
/// It reports what a crashed host has left, and ends it only when told. On Linux; elsewhere nothing is found.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # let folder = std::env::temp_dir().join(format!("ledger-example-{}", std::process::id()));
/// use mcp_client::{Ledger, McpClient, Recipe};
///
/// let (ledger, left) = Ledger::open(&folder)?;
/// for process in left {
///     eprintln!("left by a host that crashed: {process}");
///     process.kill();
/// }
/// let connect = McpClient::builder(Recipe::command("weather")).ledger(&ledger);
/// # drop((connect, ledger)); std::fs::remove_dir_all(&folder) }
/// ```
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Book>);

#[derive(Debug)]
struct Book {
    path: PathBuf,
    /// Of the file, and of no other since the machine was started.
    name: String,
    marks: AtomicU32,
    entries: Mutex<BTreeMap<u32, Entry>>,
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
        write!(f, "{} (process {})", Visible::new(self.program()), self.group)
    }
}

impl Ledger {
    /// Opens a folder, makes it if it is not there, and tells what hosts that are gone have left in it.
    ///
    /// # Errors
    /// When the folder cannot be made or read.
    pub fn open(folder: impl AsRef<Path>) -> io::Result<(Self, Vec<Leftover>)> {
        let folder = folder.as_ref();
        fs::create_dir_all(folder)?;
        let mut left = Vec::new();
        for file in fs::read_dir(folder)? {
            let path = file?.path();
            if path.extension().is_some_and(|ending| ending == ENDING) && !is_of_a_living_host(&path) {
                match leftovers(&path) {
                    Ok(found) => left.extend(found),
                    // Another host that starts was faster.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
                // What is still there is told now; who does not end it was told.
                let _ = fs::remove_file(&path);
            }
        }
        let own = std::process::id();
        let name =
            format!("{own}-{}-{}", start_time(own).unwrap_or(0), OPENED.fetch_add(1, Ordering::Relaxed));
        let path = folder.join(format!("{name}.{ENDING}"));
        let book = Book { path, name, marks: AtomicU32::new(0), entries: Mutex::default() };
        Ok((Self(Arc::new(book)), left))
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

impl Book {
    fn change(&self, change: impl FnOnce(&mut BTreeMap<u32, Entry>)) {
        let mut entries = self.lock();
        change(&mut entries);
        let lines = entries.iter().map(|(group, entry)| {
            let Entry { started, mark, program } = entry;
            format!("{group} {started} {mark} {}\n", program.replace('\n', " "))
        });
        let text: String = std::iter::once(format!("boot {}\n", boot())).chain(lines).collect();
        // A ledger that cannot be written must not keep a server from being started or ended.
        let written =
            if entries.is_empty() { fs::remove_file(&self.path) } else { replace(&self.path, &text) };
        if let Err(error) = written
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "the ledger of processes could not be written");
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Puts a whole file in the place of another, so that a crash leaves one or the other.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    // A command line may hold what is nobody else's business.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    io::Write::write_all(&mut options.open(&new)?, text.as_bytes())?;
    fs::rename(new, path)
}

fn is_of_a_living_host(path: &Path) -> bool {
    let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let mut words = name.split('-').map(str::parse::<u64>);
    match (words.next(), words.next()) {
        (Some(Ok(id)), Some(Ok(started))) => {
            u32::try_from(id).is_ok_and(|id| start_time(id) == Some(started))
        }
        _ => false,
    }
}

fn leftovers(path: &Path) -> io::Result<Vec<Leftover>> {
    if fs::metadata(path)?.len() > MOST {
        return Ok(Vec::new());
    }
    let text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
    let parse = |line: &str| {
        let mut words = line.splitn(4, ' ');
        let (group, started) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (mark, program) = (words.next()?.to_owned(), words.next()?.to_owned());
        Some(Leftover { group, entry: Entry { started, mark, program } })
    };
    // Times are counted from when the machine was started, and so are processes.
    match text.split_once('\n') {
        Some((first, rest)) if first == format!("boot {}", boot()) => {
            Ok(rest.lines().filter_map(parse).filter(Leftover::is_there).collect())
        }
        _ => Ok(Vec::new()),
    }
}

/// Names the time since the machine was started.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
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
    use crate::process::Process;
    use crate::recipe::Recipe;

    #[tokio::test]
    async fn x_37_what_is_started_is_written_down_and_struck_out() {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, left) = Ledger::open(folder.path()).unwrap();
        assert_eq!(left, []);
        let recipe = Recipe::command("sleep").arg("60");
        let (process, _pipes) = Process::start_in(&recipe, Some(&ledger)).unwrap();
        let group = process.group().unwrap();
        let text = fs::read_to_string(&ledger.0.path).unwrap();
        let (first, rest) = text.split_once('\n').unwrap();
        assert!(first.starts_with("boot ") && first.len() > 20, "{text}");
        assert!(rest.starts_with(&format!("{group} ")) && rest.ends_with(" sleep 60\n"), "{text}");
        // Another host sees that this one lives, and leaves its file alone.
        assert_eq!(Ledger::open(folder.path()).unwrap().1, []);
        drop(process);
        assert!(!ledger.0.path.exists());
    }

    #[test]
    fn n_3_x_37_what_a_crashed_host_has_left_is_told_and_ended_only_when_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut left = std::process::Command::new("sleep");
        std::os::unix::process::CommandExt::process_group(&mut left, 0);
        let mut child = left.arg("60").spawn().unwrap();
        let started = start_time(child.id()).unwrap();
        // A host that cannot live, one of its processes, and two whose numbers were given to others.
        let text = format!(
            "boot {3}\n{0} {started} m sleep 60\n{0} {1} m other\n{2} 1 m us\nnonsense\n",
            child.id(),
            started + 1,
            std::process::id(),
            boot(),
        );
        let file = folder.path().join(format!("4194304-1-0.{ENDING}"));
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
    fn n_3_x_37_what_a_server_that_is_gone_has_left_in_its_group_is_told_too() {
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
    async fn x_37_two_ledgers_of_one_program_do_not_write_over_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let (one, _) = Ledger::open(folder.path()).unwrap();
        let (other, left) = Ledger::open(folder.path()).unwrap();
        assert_eq!(left, []);
        let recipe = Recipe::command("sleep").arg("60");
        let (first, _pipes) = Process::start_in(&recipe, Some(&one)).unwrap();
        let (second, _pipes) = Process::start_in(&recipe, Some(&other)).unwrap();
        assert!(one.0.path.exists() && other.0.path.exists());
        drop(second);
        assert!(one.0.path.exists() && !other.0.path.exists());
        drop(first);
        assert!(!one.0.path.exists());
    }

    #[test]
    fn a_process_whose_number_was_given_out_again_is_not_killed() {
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
    fn neither_the_first_process_nor_ourselves_are_ever_taken_for_a_server() {
        for group in [1, std::process::id()] {
            let entry =
                Entry { started: start_time(group).unwrap(), mark: String::new(), program: "x".to_owned() };
            assert!(!Leftover { group, entry }.is_there(), "{group}");
        }
    }
}
