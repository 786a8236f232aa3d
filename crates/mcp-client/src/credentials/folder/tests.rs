use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn refusal<T>(result: io::Result<T>) -> String {
    let error = result.err().expect("it is refused");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
    error.to_string()
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(path).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn new_folder_and_files_are_private() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("a/b");
    assert!(PrivateFolder::open(&path).unwrap().is_none());
    let folder = PrivateFolder::create(&path).unwrap();
    folder.replace("file", b"one").unwrap();
    folder.replace("file", b"two").unwrap();
    drop(folder.open_lock_file("lock").unwrap());
    assert_eq!(&**folder.read("file", 3).unwrap().unwrap(), b"two");
    assert_eq!(folder.read("file", 2).unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert!(folder.read("absent", 3).unwrap().is_none());
    assert_eq!((mode(&path), mode(&path.join("file")), mode(&path.join("lock"))), (0o700, 0o600, 0o600));
    assert_eq!(names(&path), ["file", "lock"], "no temporary file is left");
    assert!(folder.remove("file").unwrap());
    assert!(!folder.remove("file").unwrap());
}

#[test]
fn existing_file_is_not_created_again() {
    let parent = tempfile::tempdir().unwrap();
    let folder = PrivateFolder::create(&parent.path().join("a")).unwrap();
    assert!(folder.create_file("key", b"first").unwrap());
    assert!(!folder.create_file("key", b"second").unwrap());
    assert_eq!(&**folder.read("key", 100).unwrap().unwrap(), b"first");
    assert_eq!(names(&parent.path().join("a")), ["key"]);
}

#[test]
fn wider_modes_links_and_other_kinds_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("folder");
    let folder = PrivateFolder::create(&path).unwrap();
    folder.replace("file", b"text").unwrap();
    for wide in [0o701, 0o710, 0o750, 0o777, 0o704] {
        fs::set_permissions(&path, Permissions::from_mode(wide)).unwrap();
        let error = refusal(PrivateFolder::create(&path));
        assert!(error.contains(&format!("mode {wide:o}")) && error.contains("chmod 700"), "{error}");
        refusal(PrivateFolder::open(&path));
    }
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    for wide in [0o640, 0o604, 0o660] {
        fs::set_permissions(path.join("file"), Permissions::from_mode(wide)).unwrap();
        let error = refusal(folder.read("file", 100));
        assert!(error.contains("chmod 600"), "{error}");
        refusal(folder.open_lock_file("file"));
    }
    let link = parent.path().join("link");
    symlink(&path, &link).unwrap();
    assert!(refusal(PrivateFolder::create(&link)).contains("symbolic link"));
    fs::write(parent.path().join("target"), "text").unwrap();
    symlink(parent.path().join("target"), path.join("linked")).unwrap();
    assert!(refusal(folder.read("linked", 100)).contains("symbolic link"));
    assert!(refusal(folder.open_lock_file("linked")).contains("symbolic link"));
    // A write replaces the link, not its target.
    folder.replace("linked", b"new").unwrap();
    assert_eq!(fs::read_to_string(parent.path().join("target")).unwrap(), "text");
    fs::create_dir(path.join("inner")).unwrap();
    fs::set_permissions(path.join("inner"), Permissions::from_mode(0o700)).unwrap();
    assert!(refusal(folder.read("inner", 100)).contains("regular file"));
    let fifo = rustix::fs::mknodat(
        rustix::fs::CWD,
        path.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    );
    fifo.unwrap();
    assert!(refusal(folder.read("fifo", 100)).contains("regular file"), "and it does not wait for a writer");
}

#[test]
fn folder_of_another_user_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("folder");
    let folder = PrivateFolder::create(&path).unwrap();
    if rustix::process::geteuid().is_root() {
        folder.replace("file", b"text").unwrap();
        std::os::unix::fs::chown(path.join("file"), Some(12345), None).unwrap();
        assert!(refusal(folder.read("file", 100)).contains("belongs to user 12345"));
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        assert!(refusal(PrivateFolder::create(&path)).contains("belongs to user 12345"));
    } else {
        assert!(refusal(PrivateFolder::create(Path::new("/"))).contains("belongs to user 0"));
    }
}

#[test]
fn only_old_temporary_files_are_leftovers() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("folder");
    let folder = PrivateFolder::create(&path).unwrap();
    for name in ["old.tmp", "new.tmp", "old.cred"] {
        fs::write(path.join(name), "").unwrap();
    }
    let past = SystemTime::now() - Duration::from_secs(3700);
    for name in ["old.tmp", "old.cred"] {
        fs::File::options().write(true).open(path.join(name)).unwrap().set_modified(past).unwrap();
    }
    folder.remove_leftovers();
    assert_eq!(names(&path), ["new.tmp", "old.cred"]);
}
