//! A private folder: its checks, atomic replacement of files, and reading.
//!
//! # Invariants
//! - The folder and each file that is read belong to this user, and nobody else can access them. Symbolic links are not
//!   followed. On Unix this is checked on the opened folder and files, so that they cannot be exchanged in between.
//! - A file is replaced as a whole: a reader, or a process that starts after a crash, sees the old or the new content.
//!
//! On other systems the permissions are those that the folder inherits, usually from the profile of the user.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use zeroize::Zeroizing;

use super::{StoreError, random_id};

/// The extension of files that are being written.
const TEMPORARY_EXTENSION: &str = "tmp";
/// The age from which a temporary file is a leftover of a process that was killed.
const LEFTOVER_AGE: Duration = Duration::from_secs(60 * 60);
/// The maximum number of leftovers that are looked for.
const MAX_LISTED_FILES: usize = 4096;

/// An opened folder that only this user can access.
pub(super) struct PrivateFolder {
    path: PathBuf,
    handle: platform::Handle,
}

impl PrivateFolder {
    /// Opens the folder, which is created if needed.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        platform::create_folder(path)?;
        Ok(Self { path: path.to_owned(), handle: platform::open_folder(path)? })
    }

    /// Opens the folder. Returns `None` if it does not exist.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        match platform::open_folder(path) {
            Ok(handle) => Ok(Some(Self { path: path.to_owned(), handle })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a file of at most `limit` bytes. Returns `None` if it does not exist.
    pub(super) fn read(&self, name: &str, limit: usize) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        let file = match self.handle.open_file(&self.path, name) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Zeroizing::new(Vec::with_capacity(limit + 1));
        file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > limit {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{name} is larger than {limit} bytes"),
            ));
        }
        Ok(Some(bytes))
    }

    /// Replaces the content of a file, or creates it.
    pub(super) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.write_temporary(name, bytes)?;
        let renamed = self.handle.rename(&self.path, &temporary, name);
        if renamed.is_err() {
            self.remove_quietly(&temporary);
        }
        renamed?;
        self.handle.sync(&self.path)
    }

    /// Creates a file with its complete content. Returns false if the name exists.
    pub(super) fn create_file(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        let temporary = self.write_temporary(name, bytes)?;
        let linked = self.handle.link(&self.path, &temporary, name);
        self.remove_quietly(&temporary);
        match linked {
            Ok(()) => self.handle.sync(&self.path).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a file whose lock is used and whose content is not. It is created if needed.
    pub(super) fn open_lock_file(&self, name: &str) -> io::Result<File> {
        self.handle.open_or_create_file(&self.path, name)
    }

    /// Renames a file. Replaces a file with the new name.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.handle.rename(&self.path, from, to)?;
        self.handle.sync(&self.path)
    }

    /// Removes a file. Returns false if it does not exist.
    pub(super) fn remove(&self, name: &str) -> io::Result<bool> {
        match self.handle.remove(&self.path, name) {
            Ok(()) => self.handle.sync(&self.path).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes temporary files that killed processes left behind. Errors do not matter: the next call tries again.
    pub(super) fn remove_leftovers(&self) {
        let Ok(files) = self.path.read_dir() else { return };
        for file in files.take(MAX_LISTED_FILES).flatten() {
            let name = file.file_name();
            let Some(name) =
                name.to_str().filter(|name| Path::new(name).extension().is_some_and(is_temporary))
            else {
                continue;
            };
            let age = file.metadata().and_then(|metadata| metadata.modified());
            let age = age.ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
            if age.is_some_and(|age| age > LEFTOVER_AGE) {
                self.remove_quietly(name);
            }
        }
    }

    /// Writes a new file and returns its name. The content is on disk when this function returns.
    fn write_temporary(&self, name: &str, bytes: &[u8]) -> io::Result<String> {
        let temporary = format!("{name}-{}.{TEMPORARY_EXTENSION}", random_id());
        let mut file = self.handle.create_new_file(&self.path, &temporary)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if written.is_err() {
            self.remove_quietly(&temporary);
        }
        written.map(|()| temporary)
    }

    fn remove_quietly(&self, name: &str) {
        if let Err(error) = self.handle.remove(&self.path, name) {
            tracing::debug!(%error, name, "cannot remove a temporary file");
        }
    }
}

fn is_temporary(extension: &std::ffi::OsStr) -> bool {
    extension == TEMPORARY_EXTENSION
}

/// Converts an I/O error of a store in the folder `path`.
pub(super) fn store_error(store: &str, path: &Path, error: &io::Error) -> StoreError {
    let store = store.to_owned();
    let cause = format!("{}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => StoreError::Permissions { store, cause },
        io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { store, cause },
        io::ErrorKind::InvalidData => StoreError::Corrupt { store, cause },
        _ => StoreError::Unavailable { store, cause },
    }
}

#[cfg(unix)]
mod platform {
    use std::fs::{DirBuilder, File, Metadata};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    use std::path::Path;

    use rustix::fs::{AtFlags, Mode, OFlags, linkat, open, openat, renameat, unlinkat};

    pub(super) struct Handle(File);

    pub(super) fn create_folder(path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    pub(super) fn open_folder(path: &Path) -> io::Result<Handle> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder =
            File::from(open(path, flags, Mode::empty()).map_err(|error| explain_link(error, "folder"))?);
        check_owner(&folder.metadata()?, "folder", "chmod 700")?;
        Ok(Handle(folder))
    }

    /// The system reports a symbolic link as a loop of links, or as something that is not a directory.
    fn explain_link(error: rustix::io::Errno, what: &str) -> io::Error {
        if error == rustix::io::Errno::LOOP || error == rustix::io::Errno::NOTDIR {
            let problem = format!("the {what} is a symbolic link or not a {what}; replace it");
            return io::Error::new(io::ErrorKind::PermissionDenied, problem);
        }
        error.into()
    }

    fn check_owner(metadata: &Metadata, what: &str, remedy: &str) -> io::Result<()> {
        let refused = |problem| Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
        if owner != user {
            return refused(format!(
                "the {what} belongs to user {owner}, not to user {user}; remove it or change its owner"
            ));
        }
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            return refused(format!(
                "other users can access the {what} (mode {mode:03o}); run `{remedy}` on it"
            ));
        }
        Ok(())
    }

    impl Handle {
        pub(super) fn open_file(&self, _: &Path, name: &str) -> io::Result<File> {
            // Not blocking, so that opening a FIFO does not wait for a writer.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = openat(&self.0, name, flags, Mode::empty());
            checked(File::from(opened.map_err(|error| explain_link(error, "file"))?))
        }

        pub(super) fn open_or_create_file(&self, _: &Path, name: &str) -> io::Result<File> {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR);
            checked(File::from(opened.map_err(|error| explain_link(error, "file"))?))
        }

        pub(super) fn create_new_file(&self, _: &Path, name: &str) -> io::Result<File> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            Ok(File::from(openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR)?))
        }

        pub(super) fn rename(&self, _: &Path, from: &str, to: &str) -> io::Result<()> {
            Ok(renameat(&self.0, from, &self.0, to)?)
        }

        pub(super) fn link(&self, _: &Path, from: &str, to: &str) -> io::Result<()> {
            Ok(linkat(&self.0, from, &self.0, to, AtFlags::empty())?)
        }

        pub(super) fn remove(&self, _: &Path, name: &str) -> io::Result<()> {
            Ok(unlinkat(&self.0, name, AtFlags::empty())?)
        }

        /// Makes renamed and removed names durable.
        pub(super) fn sync(&self, _: &Path) -> io::Result<()> {
            match self.0.sync_all() {
                // Some network file systems cannot do this for folders. The file itself is on disk.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
                {
                    Ok(())
                }
                synced => synced,
            }
        }
    }

    fn checked(file: File) -> io::Result<File> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "not a regular file; remove it"));
        }
        check_owner(&metadata, "file", "chmod 600")?;
        Ok(file)
    }
}

#[cfg(not(unix))]
mod platform {
    use std::fs::{self, File, OpenOptions};
    use std::io;
    use std::path::Path;

    pub(super) struct Handle;

    pub(super) fn create_folder(path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    pub(super) fn open_folder(path: &Path) -> io::Result<Handle> {
        if !fs::symlink_metadata(path)?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "not a folder; replace it"));
        }
        Ok(Handle)
    }

    impl Handle {
        pub(super) fn open_file(&self, folder: &Path, name: &str) -> io::Result<File> {
            let path = folder.join(name);
            if !fs::symlink_metadata(&path)?.is_file() {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, "not a regular file; remove it"));
            }
            File::open(path)
        }

        pub(super) fn open_or_create_file(&self, folder: &Path, name: &str) -> io::Result<File> {
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join(name))
        }

        pub(super) fn create_new_file(&self, folder: &Path, name: &str) -> io::Result<File> {
            OpenOptions::new().write(true).create_new(true).open(folder.join(name))
        }

        pub(super) fn rename(&self, folder: &Path, from: &str, to: &str) -> io::Result<()> {
            fs::rename(folder.join(from), folder.join(to))
        }

        pub(super) fn link(&self, folder: &Path, from: &str, to: &str) -> io::Result<()> {
            fs::hard_link(folder.join(from), folder.join(to))
        }

        pub(super) fn remove(&self, folder: &Path, name: &str) -> io::Result<()> {
            fs::remove_file(folder.join(name))
        }

        pub(super) fn sync(&self, _: &Path) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
