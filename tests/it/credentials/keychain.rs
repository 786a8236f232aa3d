//! The keychain store with a real Secret Service: gnome-keyring on a private bus.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::tool::{Tool, command_line};

/// A message bus of its own, on which no service is started automatically.
struct Bus {
    daemon: Child,
    address: String,
    keyring: Option<Child>,
    folder: tempfile::TempDir,
}

/// Returns true if the programs of these tests are installed. In CI they must be.
fn is_installed() -> bool {
    let is_missing = |program: &&str| Command::new(program).arg("--version").output().is_err();
    let missing: Vec<&str> =
        ["dbus-daemon", "dbus-send", "gnome-keyring-daemon"].into_iter().filter(is_missing).collect();
    if missing.is_empty() {
        return true;
    }
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "not installed: {}", missing.join(", "));
    eprintln!("NOT RUN: the tests of the keychain ({} not installed)", missing.join(", "));
    false
}

impl Bus {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("bus.conf");
        let socket = folder.path().join("bus");
        fs::write(
            &config,
            format!(
                r#"<busconfig><type>session</type><listen>unix:path={}</listen>
                <policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/>
                <allow own="*"/></policy></busconfig>"#,
                socket.display()
            ),
        )
        .unwrap();
        let mut daemon = Command::new("dbus-daemon")
            .args(["--nofork", "--nopidfile", "--print-address=1", "--config-file"])
            .arg(config)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { daemon, address: address.trim().to_owned(), keyring: None, folder }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .env("HOME", self.folder.path())
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .env("XDG_DATA_HOME", self.folder.path().join("data"))
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY");
        command
    }

    /// Starts the keyring with its collection of passwords unlocked, and waits until it is on the bus.
    fn start_keyring(&mut self) {
        let mut keyring = self
            .command("gnome-keyring-daemon")
            .args(["--foreground", "--unlock", "--components=secrets"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The password, without a newline. It is complete when the pipe is closed.
        keyring.stdin.take().unwrap().write_all(b"password").unwrap();
        self.keyring = Some(keyring);
        let until = Instant::now() + Duration::from_secs(20);
        while !self.is_unlocked() {
            assert!(Instant::now() < until, "the keyring does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn kill_keyring(&mut self) {
        let mut keyring = self.keyring.take().unwrap();
        keyring.kill().unwrap();
        keyring.wait().unwrap();
    }

    fn send(&self, arguments: &[&str]) -> String {
        let output = self
            .command("dbus-send")
            .args(["--session", "--print-reply", "--dest=org.freedesktop.secrets"])
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn is_unlocked(&self) -> bool {
        let reply = self.send(&[
            "/org/freedesktop/secrets/aliases/default",
            "org.freedesktop.DBus.Properties.Get",
            "string:org.freedesktop.Secret.Collection",
            "string:Locked",
        ]);
        reply.contains("boolean false")
    }

    fn lock_keyring(&self) {
        self.send(&[
            "/org/freedesktop/secrets",
            "org.freedesktop.Secret.Service.Lock",
            "array:objpath:/org/freedesktop/secrets/aliases/default",
        ]);
        assert!(!self.is_unlocked());
    }

    /// The folder of locks, and of files if there are any.
    fn store_folder(&self) -> PathBuf {
        self.folder.path().join("credentials")
    }

    fn tool(&self, kind: &str) -> Tool {
        let [program, kind, folder] = command_line(kind, &self.store_folder());
        let mut command = self.command(&program);
        command.args([kind, folder]);
        Tool::spawn(command)
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        for child in self.keyring.iter_mut().chain([&mut self.daemon]) {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Runs a command and demands a failure of this kind within 5 s (and a little for the machine).
fn fails(tool: &mut Tool, command: &str, kinds: &[&str]) -> String {
    let started = Instant::now();
    let result = tool.run(command);
    assert!(started.elapsed() < Duration::from_secs(7), "{command}: {:?}", started.elapsed());
    assert!(
        kinds.iter().any(|kind| result.starts_with(&format!("error {kind}: keychain "))),
        "{command}: {result}"
    );
    result
}

fn file_names(folder: &Path) -> Vec<String> {
    let Ok(files) = fs::read_dir(folder) else { return Vec::new() };
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn keychain_keeps_credentials_and_no_file_does() {
    if !is_installed() {
        return;
    }
    let mut bus = Bus::start();
    bus.start_keyring();
    let mut tool = bus.tool("auto");
    assert_eq!(tool.run("load a"), "none");
    assert_eq!(tool.run("choose"), "chosen keychain; refused:");
    assert_eq!(tool.run("save a the first token"), "saved");
    assert_eq!(tool.run("save a another token"), "saved");
    assert_eq!(tool.run("load a"), "text another token");
    assert_eq!(tool.run("load b"), "none");
    assert_eq!(tool.run("hold a"), "held");
    assert_eq!(bus.tool("keychain").run("load a"), "text another token");
    let long = "x".repeat(60_000);
    assert_eq!(tool.run(&format!("save long {long}")), "saved");
    assert_eq!(tool.run("load long"), format!("text {long}"));
    for name in file_names(&bus.store_folder()) {
        assert!(name.ends_with(".lock"), "{name}");
    }
    assert_eq!(tool.run("delete a"), "deleted");
    assert_eq!(tool.run("delete a"), "none");
    assert_eq!(tool.run("load a"), "none");
}

#[test]
fn locked_keychain_is_an_error_until_it_is_unlocked() {
    if !is_installed() {
        return;
    }
    let mut bus = Bus::start();
    bus.start_keyring();
    let mut tool = bus.tool("keychain");
    assert_eq!(tool.run("save a token"), "saved");
    bus.lock_keyring();
    let error = fails(&mut tool, "load a", &["Locked"]);
    assert!(error.contains("unlock it"), "{error}");
    fails(&mut tool, "save b token", &["Locked"]);
    fails(&mut tool, "save a other", &["Locked"]);
    fails(&mut tool, "delete a", &["Locked"]);
    // Unlocked by its password, as on the next login to the desktop.
    bus.kill_keyring();
    bus.start_keyring();
    assert_eq!(tool.run("load a"), "text token");
}

#[test]
fn killed_keychain_is_an_error_and_works_after_its_restart() {
    if !is_installed() {
        return;
    }
    let mut bus = Bus::start();
    bus.start_keyring();
    let mut tool = bus.tool("keychain");
    assert_eq!(tool.run("save a token"), "saved");
    for _ in 0..3 {
        bus.kill_keyring();
        fails(&mut tool, "load a", &["Unavailable"]);
        fails(&mut tool, "save a lost", &["Unavailable"]);
        bus.start_keyring();
        assert_eq!(tool.run("load a"), "text token");
    }
    // Killed while it is used.
    tool.send("write w");
    assert_eq!(tool.line(), "number 0");
    bus.kill_keyring();
    let failed = loop {
        let line = tool.line();
        if !line.starts_with("number ") {
            break line;
        }
    };
    assert!(failed.starts_with("error Unavailable: keychain "), "{failed}");
    bus.start_keyring();
    assert!(tool.run("load w").starts_with("text "));
}

#[test]
fn missing_keychain_is_an_error_and_files_are_used() {
    if !is_installed() {
        return;
    }
    // A bus without a service.
    let mut bus = Bus::start();
    let mut tool = bus.tool("keychain");
    fails(&mut tool, "load a", &["Unavailable"]);
    fails(&mut tool, "save a token", &["Unavailable"]);
    let mut auto = bus.tool("auto");
    assert_eq!(auto.run("load a"), "none");
    let choice = auto.run("choose");
    assert!(choice.starts_with("chosen obfuscated files in "), "{choice}");
    assert!(choice.contains("refused: keychain is not available: "), "{choice}");
    assert_eq!(auto.run("save a in a file"), "saved");
    assert_eq!(auto.run("load a"), "text in a file");
    // The service starts later.
    bus.start_keyring();
    assert_eq!(tool.run("save a token"), "saved");
    assert_eq!(auto.run("choose"), "chosen keychain; refused:");
    // No bus at all.
    let [program, kind, folder] = command_line("keychain", &bus.store_folder());
    let mut command = Command::new(program);
    command
        .args([kind, folder])
        .env_remove("DBUS_SESSION_BUS_ADDRESS")
        .env("XDG_RUNTIME_DIR", "/nonexistent");
    fails(&mut Tool::spawn(command), "load a", &["Unavailable"]);
}

/// A service that accepts calls and does not respond.
#[test]
fn hanging_keychain_is_an_error_within_five_seconds() {
    if !is_installed() {
        return;
    }
    let mut bus = Bus::start();
    bus.start_keyring();
    let mut tool = bus.tool("keychain");
    assert_eq!(tool.run("save a token"), "saved");
    let keyring = bus.keyring.as_ref().unwrap().id();
    let signal = |name: &str| {
        let sent = Command::new("sh").args(["-c", &format!("kill -s {name} {keyring}")]).status();
        assert!(sent.unwrap().success());
    };
    signal("STOP");
    fails(&mut tool, "load a", &["Busy"]);
    let started = Instant::now();
    fails(&mut tool, "load a", &["Busy"]);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    signal("CONT");
    let until = Instant::now() + Duration::from_secs(10);
    while tool.run("load a") != "text token" {
        assert!(Instant::now() < until, "it does not recover");
        std::thread::sleep(Duration::from_millis(50));
    }
}
