//! Encrypted files under kill, on a full disk, and in a folder that cannot be written.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::tool::{Tool, command_line};

const KILLS: u32 = 200;

/// A number that differs for each round and spreads over the range.
fn spread(round: u32, range: u32) -> u32 {
    round.wrapping_mul(2_654_435_761).rotate_left(7) % range
}

#[test]
fn killed_writer_leaves_the_old_or_the_new_credential() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("credentials");
    let mut last = None;
    let (mut saved, mut in_flight) = (0, 0);
    for round in 0..KILLS {
        let mut writer = Tool::start("file", &folder);
        writer.send("write w");
        // Let two writes finish to see how long one takes, then kill at a random moment of the following ones.
        let mut printed: Option<u64> = None;
        let mut duration = Duration::ZERO;
        for _ in 0..2 {
            let started = Instant::now();
            let line = writer.line();
            printed = Some(line.strip_prefix("number ").unwrap_or_else(|| panic!("{line}")).parse().unwrap());
            duration = started.elapsed();
        }
        std::thread::sleep(duration * spread(round, 300) / 100);
        writer.kill();
        let text = Tool::start("file", &folder).run("load w");
        let text = text.strip_prefix("text ").unwrap_or_else(|| panic!("round {round}: {text}"));
        let (number, rest) = text.split_once(' ').unwrap();
        let number: u64 = number.parse().unwrap();
        assert!(rest.len() == 20_000 && rest.bytes().all(|byte| byte == rest.as_bytes()[0]), "round {round}");
        // Everything that was reported as saved is there, and maybe more, which was not read.
        let printed = printed.unwrap();
        assert!(
            number >= printed && last.is_none_or(|last| number > last),
            "round {round}: {number}, {printed}"
        );
        saved += u64::from(number == printed);
        in_flight += u64::from(number > printed);
        last = Some(number);
    }
    assert!(saved > 0 && in_flight > 0, "the kills hit different moments: {saved}, {in_flight}");
    let damaged = fs::read_dir(&folder)
        .unwrap()
        .filter(|file| file.as_ref().unwrap().file_name().to_str().unwrap().contains("damaged"));
    assert_eq!(damaged.count(), 0);
}

/// Runs a shell script in a mount namespace of its own, with the command line of the program as `$1` to `$3`. Returns
/// its output, or `None` if this user may not create namespaces.
fn in_namespace(script: &str, folder: &Path) -> Option<String> {
    let is_allowed =
        Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !is_allowed {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "mount namespaces are not allowed");
        eprintln!(
            "NOT RUN: the tests of full disks and read-only folders (mount namespaces are not allowed)"
        );
        return None;
    }
    let output = Command::new("unshare")
        .args(["-m", "sh", "-ec", script, "sh"])
        .args(command_line("file", folder))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn full_disk_is_an_error_and_the_old_credential_stays() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("disk/credentials");
    let script = format!(
        r#"mkdir -p {disk}; mount -t tmpfs -o size=100k,mode=700 none {disk}
        printf 'save a old\n' | "$@"
        head -c 200k /dev/zero >{disk}/ballast 2>/dev/null || true
        {{ printf 'save a '; head -c 30000 /dev/zero | tr '\0' x; printf '\nload a\n'; }} | "$@"
        rm {disk}/ballast; printf 'save a new\nload a\n' | "$@"; ls {disk}/credentials | grep -c tmp || true"#,
        disk = parent.path().join("disk").display()
    );
    let Some(output) = in_namespace(&script, &folder) else { return };
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), 6, "{output}");
    assert_eq!(lines[0], "saved");
    assert!(lines[1].starts_with("error Unavailable: ") && lines[1].contains("No space left"), "{output}");
    assert_eq!(lines[2..], ["text old", "saved", "text new", "0"], "{output}");
}

#[test]
fn read_only_folder_is_an_error_and_can_be_read() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("credentials");
    let script = format!(
        r#"printf 'save a old\n' | "$@"
        mount --bind {folder} {folder}; mount -o remount,bind,ro {folder}
        printf 'save a new\nload a\ndelete a\nhold a\n' | "$@""#,
        folder = folder.display()
    );
    let Some(output) = in_namespace(&script, &folder) else { return };
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!((lines[0], lines[2]), ("saved", "text old"), "{output}");
    for line in [lines[1], lines[3], lines[4]] {
        assert!(line.starts_with("error ReadOnly: ") && line.contains("Read-only"), "{output}");
    }
}

/// Root may read everything, so the program runs as another user, to whom the folder does not belong.
#[test]
fn folder_of_another_owner_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("credentials");
    // The other user must be able to reach the folder and run the program, so both are shown in `/mnt`.
    let script = format!(
        r#"printf 'save a old\n' | "$@"; mount --bind {parent} /mnt
        cp "$1" /mnt/program; chmod 755 /mnt /mnt/program
        printf 'load a\nsave a new\n' | setpriv --reuid 12345 --regid 12345 --clear-groups \
            /mnt/program file /mnt/credentials"#,
        parent = parent.path().display()
    );
    let Some(output) = in_namespace(&script, &folder) else { return };
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "saved", "{output}");
    for line in &lines[1..=2] {
        assert!(line.starts_with("error Permissions: "), "{output}");
    }
    assert_eq!(Tool::start("file", &folder).run("load a"), "text old");
}
