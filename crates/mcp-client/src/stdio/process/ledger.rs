//! A ledger: files that record the started processes, so that the next start of the host finds processes that a crash
//! left behind.
//!
//! Each running host has one locked file, with one line per process group. A host that opens the folder reads the files
//! of hosts that have exited. Ids are reused, so a process is the recorded one only if it also has the recorded start
//! time. Descendants of a recorded process that has exited are identified by a mark in their environment. Ids are valid
//! only in the PID namespace and the boot in which they were recorded. Entries of another namespace are ignored
//! and kept.

mod files;
mod leftover;
mod processes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use files::SkippedFile;
use files::{LEDGER_EXTENSION, MAX_FILES, OwnFile, prepare_folder, unique_name};
pub use leftover::Leftover;
use leftover::leftovers;
use processes::{header, start_time};

/// A variable in the environment of each recorded process. It identifies descendants that are still running after that
/// process has exited.
pub(crate) const MARK_VARIABLE: &str = "MCP_LEDGER_MARK";

/// A folder in which this host records the processes that it has started.
///
/// It reports the processes that a crashed host left behind, and kills them only on request. It finds processes on
/// Linux only.
///
/// The folder is for one user: it is created with mode 700, and an existing folder that belongs to another user or is
/// writable by others is refused, not changed. Several hosts may share the folder, even from different containers: a
/// running host holds a lock on its file, and ignores processes of other PID namespaces.
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
#[doc(alias = "orphan")]
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Book>);

#[derive(Debug)]
struct Book {
    folder: PathBuf,
    /// An unpredictable name, which is the first part of every mark.
    name: String,
    marks: AtomicU32,
    pages: Mutex<Pages>,
    skipped: Vec<SkippedFile>,
}

#[derive(Debug, Default)]
struct Pages {
    entries: BTreeMap<u32, LedgerEntry>,
    /// The file with the entries as last written; `None` if there are no entries.
    file: Option<OwnFile>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LedgerEntry {
    started: u64,
    /// The value of [`MARK_VARIABLE`] in the environment of the process and of its descendants.
    mark: String,
    program: String,
}

impl Ledger {
    /// Opens a folder, which is created if needed, and returns the processes that crashed hosts left behind.
    ///
    /// A file that cannot be read is kept and listed in [`skipped`](Self::skipped).
    ///
    /// # Errors
    /// Fails if the folder cannot be created or read, belongs to another user, or is writable by others.
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
        // One file more than the limit was listed, only to detect that there are too many.
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
        // A host that crashed while it replaced its file has left the old and the new file.
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

    /// Returns the files in the folder that were not read when it was opened, because they are not regular files, too
    /// large or not ledger files. If there were more than 1024 ledger files, one entry stands for all that were not
    /// read.
    #[must_use]
    pub fn skipped(&self) -> &[SkippedFile] {
        &self.0.skipped
    }

    /// Returns a new value of [`MARK_VARIABLE`] for one process.
    pub(crate) fn mark(&self) -> String {
        format!("{}-{}", self.0.name, self.0.marks.fetch_add(1, Ordering::Relaxed))
    }

    /// Records a process group until the returned value is dropped.
    pub(crate) fn record(&self, group: u32, mark: String, program: String) -> Recorded {
        let entry = LedgerEntry { started: start_time(group).unwrap_or(0), mark, program };
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
    fn change(&self, change: impl FnOnce(&mut BTreeMap<u32, LedgerEntry>)) {
        let mut pages = self.lock();
        change(&mut pages.entries);
        if pages.entries.is_empty() {
            pages.file = None;
            return;
        }
        let lines = pages.entries.iter().map(|(group, entry)| {
            let LedgerEntry { started, mark, program } = entry;
            format!("{group} {started} {mark} {}\n", program.replace('\n', " "))
        });
        let text: String = std::iter::once(header()).chain(lines).collect();
        // The old file is removed only when the new one is complete, so that a crash leaves at least one of them.
        match OwnFile::create(&self.folder, &text) {
            Ok(file) => pages.file = Some(file),
            // If the ledger cannot be written, servers must still be started and ended.
            Err(error) => tracing::warn!(%error, "cannot write the process ledger"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A recorded process group. Dropping this value removes its entry.
#[derive(Debug)]
pub(crate) struct Recorded {
    book: Arc<Book>,
    group: u32,
    started: u64,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.book.change(|entries| {
            // The id may already belong to a new group, whose entry must stay.
            entries.retain(|group, entry| *group != self.group || entry.started != self.started);
        });
    }
}
