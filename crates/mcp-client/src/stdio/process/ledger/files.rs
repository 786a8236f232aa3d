//! The folder and the files of a ledger. Determines which files are safe to read, and which hosts are running.
//!
//! A host holds an advisory lock on its file while it runs. Unlike a process id, a lock is valid in every process-id
//! namespace, and the kernel releases it no matter how the host ends.
//!
//! # Invariants
//! - Only regular files are read. Opening an existing file never blocks and never follows a symbolic link.
//! - A new file never replaces a file and never follows a link: its name is unpredictable and must not exist.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use mcp_protocol::safe_text::SafeText;

/// The extension of ledger files.
pub(super) const LEDGER_EXTENSION: &str = "mcp-ledger";
/// The maximum number of bytes of a file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The maximum number of files that are read when a folder is opened.
pub(super) const MAX_FILES: usize = 1024;
/// The maximum number of attempts to create a new file under an unused name.
const MAX_ATTEMPTS: u32 = 8;

/// A file in the folder of a ledger that was not read and not changed. `Display` shows the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedFile {
    path: PathBuf,
    reason: String,
}

impl SkippedFile {
    pub(super) fn new(path: PathBuf, reason: impl Into<String>) -> Self {
        Self { path, reason: reason.into() }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for SkippedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.to_string_lossy();
        write!(f, "{} was skipped: {}", SafeText::new(&path).at_most(400), self.reason)
    }
}

/// The file of a host that has exited. The file stays locked until this value is dropped.
pub(super) struct DeadHostFile {
    _lock: File,
    pub(super) text: String,
}

/// Reads the file of a host that has exited. Returns `Ok(None)` if that host is still running, or if another host has
/// locked or removed the file first. The `Err` variant is the reason why the file is skipped.
pub(super) fn read_if_dead(path: &Path) -> Result<Option<DeadHostFile>, String> {
    let file = match open_existing(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot open it as a regular file: {error}")),
    };
    let unreadable = |error: io::Error| format!("cannot read it: {error}");
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err("not a regular file".to_owned());
    }
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(format!("cannot lock it: {error}")),
    }
    let mut bytes = Vec::new();
    (&file).take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("larger than {MAX_FILE_BYTES} bytes"));
    }
    Ok(Some(DeadHostFile { _lock: file, text: String::from_utf8_lossy(&bytes).into_owned() }))
}

/// The file of this host. It stays locked; dropping this value removes it.
#[derive(Debug)]
pub(super) struct OwnFile {
    path: PathBuf,
    file: File,
}

impl OwnFile {
    /// Writes and locks a new file with an unpredictable name.
    pub(super) fn create(folder: &Path, text: &str) -> io::Result<Self> {
        for _ in 0..MAX_ATTEMPTS {
            let path = folder.join(format!("{}.{LEDGER_EXTENSION}", unique_name()));
            let mut own = match create_new(&path) {
                Ok(file) => Self { path, file },
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            match own.file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Before the lock was taken, another host may have read this file as that of a dead host, and removed it.
            if is_linked(&own.file)? {
                own.file.write_all(text.as_bytes())?;
                return Ok(own);
            }
        }
        Err(io::Error::other("other processes kept removing the new ledger file"))
    }

    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "cannot remove the process ledger file");
        }
    }
}

/// Returns a name that cannot be guessed and is not used twice.
pub(super) fn unique_name() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{}-{:016x}{:016x}", std::process::id(), random(), random())
}

/// Creates a file that only its owner can access. Fails if the name exists, even as a dangling symbolic link.
fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    set_private(&mut options);
    options.open(path)
}

#[cfg(unix)]
mod platform {
    use std::fs::{DirBuilder, File, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
    use std::path::Path;

    use rustix::fs::OFlags;

    /// Creates a folder that only its owner can access. If the folder exists, checks that it belongs to this user and
    /// that nobody else can create files in it. An existing folder that others can list is accepted, because the files
    /// in it are private. Its mode is not changed, because the folder may also have another purpose.
    pub(in super::super) fn prepare_folder(folder: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let metadata = std::fs::metadata(folder)?;
        let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
        let refused = |problem: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        let shown = folder.display();
        if owner != user {
            return refused(format!(
                "the ledger folder {shown} belongs to user {owner}, not to user {user}; use another folder"
            ));
        }
        let mode = metadata.mode() & 0o777;
        if mode & 0o022 != 0 {
            return refused(format!(
                "the ledger folder {shown} is writable by other users (mode {mode:03o}); run `chmod 700` on it, or \
                 use another folder"
            ));
        }
        Ok(())
    }

    /// Opens an existing file of any kind. Does not wait for the other end of a FIFO, and does not follow a link.
    pub(super) fn open_existing(path: &Path) -> io::Result<File> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        // Opened for writing as well, because network file systems need that for an exclusive lock.
        OpenOptions::new().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(path)
    }

    /// Makes a new file private, because a command line may contain secrets.
    pub(super) fn set_private(options: &mut OpenOptions) {
        options.mode(0o600);
    }

    pub(super) fn is_linked(file: &File) -> io::Result<bool> {
        Ok(file.metadata()?.nlink() > 0)
    }
}

#[cfg(not(unix))]
mod platform {
    use std::fs::{self, File, OpenOptions};
    use std::io;
    use std::path::Path;

    /// Creates the folder. Its permissions are inherited from the parent folder.
    pub(in super::super) fn prepare_folder(folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)
    }

    pub(super) fn open_existing(path: &Path) -> io::Result<File> {
        if !fs::symlink_metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        OpenOptions::new().read(true).write(true).open(path)
    }

    pub(super) fn set_private(_: &mut OpenOptions) {}

    pub(super) fn is_linked(_: &File) -> io::Result<bool> {
        Ok(true)
    }
}

pub(super) use platform::prepare_folder;
use platform::{is_linked, open_existing, set_private};

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn new_file_never_follows_or_replaces_anything() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, planted) = (folder.path().join("victim"), folder.path().join("planted"));
        symlink(&victim, &planted).unwrap();
        assert_eq!(create_new(&planted).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(!victim.exists(), "the link was followed");
        fs::write(&victim, "kept").unwrap();
        assert_eq!(create_new(&victim).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
    }

    #[test]
    fn files_have_unpredictable_names_and_private_modes() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = [(); 2].map(|()| OwnFile::create(folder.path(), "text").unwrap());
        assert_ne!(one.path(), other.path());
        assert_eq!(mode(one.path()), 0o600);
        let name = one.path().file_stem().unwrap().to_str().unwrap();
        assert_eq!(name.rsplit('-').next().unwrap().len(), 32, "{name}");
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }

    #[test]
    fn file_of_a_living_host_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let own = OwnFile::create(folder.path(), "text").unwrap();
        assert!(read_if_dead(own.path()).unwrap().is_none());
        let dead = folder.path().join("dead");
        fs::write(&dead, "text").unwrap();
        let first = read_if_dead(&dead).unwrap().unwrap();
        assert_eq!(first.text, "text");
        assert!(read_if_dead(&dead).unwrap().is_none(), "one host at a time reads it");
        drop(first);
        assert!(read_if_dead(&dead).unwrap().is_some());
        assert!(read_if_dead(&folder.path().join("gone")).unwrap().is_none());
    }

    #[test]
    fn new_folder_is_private_and_a_writable_one_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a/ledger");
        prepare_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        for wide in [0o777, 0o770, 0o702, 0o720] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(wide)).unwrap();
            let error = prepare_folder(&folder).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert!(error.to_string().contains(&format!("mode {wide:o}")), "{error}");
            assert!(error.to_string().contains("chmod 700"), "{error}");
            assert_eq!(mode(&folder), wide, "it is not changed");
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        prepare_folder(&folder).unwrap();
        // Root could use any folder, but a folder of another user is not trusted.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&folder, Some(12345), None).unwrap();
            let error = prepare_folder(&folder).unwrap_err();
            assert!(error.to_string().contains("belongs to user 12345"), "{error}");
        } else {
            let error = prepare_folder(Path::new("/")).unwrap_err();
            assert!(error.to_string().contains("belongs to user 0"), "{error}");
        }
    }
}
