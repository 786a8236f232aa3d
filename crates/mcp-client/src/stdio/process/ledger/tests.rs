use std::process::Stdio;

use super::processes::boot;
use super::*;
use crate::config::server_config::ServerConfig;
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
    // Another host sees that this host is running, and does not change its file.
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
    // The file of a host that is not running, with one of its processes, and two entries whose ids were reused.
    let text = format!(
        "{3}{0} {started} m sleep 60\n{0} {1} m other\n{2} 1 m us\nnonsense\n",
        child.id(),
        started + 1,
        std::process::id(),
        header(),
    );
    let file = folder.path().join(format!("4194304-1-0.{LEDGER_EXTENSION}"));
    // A file from an earlier boot.
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
    let shell = shell.args(["-c", "sleep 60 & read line"]).env(MARK_VARIABLE, "1-2-3-4");
    let mut shell = shell.stdin(Stdio::piped()).spawn().unwrap();
    let started = start_time(shell.id()).unwrap();
    let of = |mark: &str| LedgerEntry { started, mark: mark.to_owned(), program: "npx".to_owned() };
    let left = Leftover { group: shell.id(), entry: of("1-2-3-4") };
    // The shell reads its stdin only after it has started the child, and then exits.
    drop(shell.stdin.take());
    shell.wait().unwrap();
    assert!(start_time(left.group).is_none());
    // While the child executes another program, its environment cannot be read for a moment.
    let is_seen = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        left.is_there()
    });
    assert!(is_seen);
    // An entry with the same group id, but with the mark of another host.
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
    let entry = LedgerEntry {
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
            LedgerEntry { started: start_time(group).unwrap(), mark: String::new(), program: "x".to_owned() };
        assert!(!Leftover { group, entry }.is_there(), "{group}");
    }
}

/// Starts a process in its own group. Returns it with the line that records it.
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
    // In that namespace, the same id belongs to another process.
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
    // The process id in the file name does not matter: the host may run in another namespace.
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
    let place = |number: usize| fs::write(folder.path().join(format!("{number}.mcp-ledger")), &text).unwrap();
    (0..MAX_FILES).for_each(place);
    assert_eq!(Ledger::open(folder.path()).unwrap().0.skipped(), []);
    (MAX_FILES..MAX_FILES + 3).for_each(place);
    let (ledger, _) = Ledger::open(folder.path()).unwrap();
    let [skipped] = ledger.skipped() else { panic!("{:?}", ledger.skipped()) };
    assert_eq!(skipped.path().parent(), Some(folder.path()));
    assert!(skipped.to_string().contains("more than 1024 ledger files"), "{skipped}");
}
