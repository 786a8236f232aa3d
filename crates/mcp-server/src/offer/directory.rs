//! Access to the files of one directory, safe from path traversal: `..` and symbolic links are refused.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mcp_protocol::resources::{ResourceContents, ResourceTemplate};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat};

use crate::error::ToolError;
use crate::offer::blocking::blocking;
use crate::offer::completion::CompletionRequest;
use crate::offer::resource::{ReadRequest, ServedTemplate, resource_template};

/// The maximum size in bytes of a file that is served as a resource. Such a file fits into one message, even in base64
/// or as text in which every character is escaped.
const MAX_FILE_BYTES: u64 = 6 << 20;
/// The maximum number of directory entries read for one listing.
const MAX_DIRECTORY_ENTRIES: usize = 10_000;

/// An open directory, through which the files and folders below it can be read.
///
/// Paths are relative to the directory, with `/` as separator, and are resolved one name at a time from the open
/// directory. `..` is refused. Symbolic links are never followed, not even a link that replaces a file or folder
/// between check and use (TOCTOU).
#[doc(alias = "sandbox")]
///
/// ```
/// use mcp_server::RootDir;
///
/// let root = RootDir::open(env!("CARGO_MANIFEST_DIR"))?;
/// assert!(root.read("Cargo.toml", 1 << 20)?.starts_with(b"[package]"));
/// assert!(root.read("../Cargo.toml", 1 << 20).is_err());
/// assert!(root.names("src")?.contains(&"lib.rs".to_owned()));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RootDir(Arc<OwnedFd>);

impl RootDir {
    /// Opens a directory. The path itself may be a symbolic link.
    ///
    /// # Errors
    /// Fails if the path is not a directory or cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let root = openat(CWD, path.as_ref(), OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self(Arc::new(root)))
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// Fails if the path is absolute, contains `..` or a symbolic link, or does not lead to a regular file.
    pub fn open_file(&self, path: &str) -> io::Result<File> {
        let names = names_of(path)?;
        let (last, folders) = names.split_last().ok_or_else(not_a_file)?;
        let folder = self.walk(folders)?;
        // The type is checked before opening, because opening a device or a pipe has side effects, and again
        // afterwards, because the file may have been replaced in between.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let is_file = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
        if !is_file(statat(&folder, *last, AtFlags::SYMLINK_NOFOLLOW)?.st_mode) {
            return Err(not_a_file());
        }
        let file = openat(&folder, *last, flags, Mode::empty())?;
        if !is_file(fstat(&file)?.st_mode) {
            return Err(not_a_file());
        }
        Ok(file.into())
    }

    /// Reads a regular file of at most `limit` bytes.
    ///
    /// # Errors
    /// Fails like [`open_file`](Self::open_file), and with [`io::ErrorKind::FileTooLarge`] if the file has more than
    /// `limit` bytes.
    pub fn read(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_file(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("file too large: more than {limit} bytes"),
            ));
        }
        Ok(bytes)
    }

    /// Returns the sorted names of the files and folders in a folder; names of folders end in `/`. An empty path means
    /// the directory itself. Names that are not UTF-8, other entries (such as symbolic links), and all entries after
    /// the first 10,000 are omitted.
    ///
    /// # Errors
    /// Fails if the path is absolute, contains `..` or a symbolic link, or does not lead to a folder.
    pub fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        let folder = self.walk(&names_of(folder)?)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder)?.take(MAX_DIRECTORY_ENTRIES) {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            // Some file systems do not report the type of an entry in the listing.
            let kind = match entry.file_type() {
                FileType::Unknown => statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                known => known,
            };
            match kind {
                FileType::RegularFile => names.push(name.to_owned()),
                FileType::Directory if !matches!(name, "." | "..") => names.push(format!("{name}/")),
                _ => {}
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Opens nested folders, each relative to its parent, and returns the last one.
    fn walk(&self, folders: &[&str]) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let start = self.0.as_fd().try_clone_to_owned()?;
        folders.iter().try_fold(start, |folder, name| Ok(openat(&folder, *name, flags, Mode::empty())?))
    }
}

/// Splits a path into names. An absolute path, `..` and NUL are errors.
fn names_of(path: &str) -> io::Result<Vec<&str>> {
    let names: Vec<_> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if path.starts_with('/') || path.contains('\0') || names.contains(&"..") {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path is absolute or contains `..` or NUL",
        ));
    }
    Ok(names)
}

fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

/// Creates a resource template with this name that serves the files of a directory and its folders. The URI of a file
/// is `prefix` followed by the path in the directory. UTF-8 files without control characters (except tabs and line
/// breaks) are served as text, others as bytes. Files above 6 MiB are refused. Clients can complete the variable `path`.
///
/// ```no_run
/// use mcp_server::{McpServer, RootDir, directory};
///
/// # fn main() -> std::io::Result<()> {
/// let handbook = directory("handbook:///", "handbook", &RootDir::open("./handbook")?);
/// let server = McpServer::named("handbook", "1").template(handbook);
/// # Ok(()) }
/// ```
#[must_use]
pub fn directory(prefix: &str, name: &str, root: &RootDir) -> ServedTemplate {
    let (reads, completes) = (root.clone(), root.clone());
    let definition = ResourceTemplate::new(format!("{prefix}{{+path}}"), name);
    let read = move |request: ReadRequest| read(&reads, &request);
    let complete = move |request: CompletionRequest| completions(&completes, &request.value);
    resource_template(definition, blocking(read)).complete("path", blocking(complete))
}

fn read(root: &RootDir, request: &ReadRequest) -> Result<ResourceContents, ToolError> {
    let path = request.variable("path");
    let bytes = root.read(path, MAX_FILE_BYTES).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => ToolError::invalid_params(format!("cannot read `{path}`: {error}")),
        // The same error for all other causes, so that a client cannot detect files that it may not read.
        _ => ToolError::resource_not_found(&request.uri),
    })?;
    let contents = ResourceContents::new(request.uri.clone());
    let is_text = |text: &str| !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
    Ok(match String::from_utf8(bytes) {
        Ok(text) if is_text(&text) => contents.mime_type("text/plain").text(text),
        Ok(text) => contents.mime_type("application/octet-stream").blob(STANDARD.encode(text)),
        Err(error) => contents.mime_type("application/octet-stream").blob(STANDARD.encode(error.as_bytes())),
    })
}

fn completions(root: &RootDir, partial: &str) -> Vec<String> {
    let (folder, name) = partial.rsplit_once('/').unwrap_or(("", partial));
    let names = root.names(folder).unwrap_or_default().into_iter().filter(|known| known.starts_with(name));
    names.map(|name| if folder.is_empty() { name } else { format!("{folder}/{name}") }).collect()
}
