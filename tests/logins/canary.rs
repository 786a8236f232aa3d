//! Looks for secrets where they must not be: in log lines of all levels, errors, `Debug` output, events, files, arguments,
//! and in the environment of processes that should not have them.
//!
//! The process and the processes that it starts log everything into one folder. What is shown elsewhere is noted with
//! [`Canary::note`]. A thread reads the arguments and environments of all processes of this test again and again.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use mcp_client::WireTrace;
use mcp_client::oauth::CredentialEvent;

/// The environment variable with the folder for logs and for temporary files, which are searched in the end.
const FOLDER: &str = "MCP_TESTS_FOLDER";
/// The environment variable that marks the processes that may have a token in their environment.
pub(crate) const MAY_HAVE_TOKEN: &str = "MCP_TESTS_MAY_HAVE_TOKEN";
/// The minimum length of an encoded secret that is searched for.
const MIN_FORM_LETTERS: usize = 12;
/// The pause between two looks at the processes.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Logs everything that this process does into a file of the folder that the environment names, if it names one.
pub(crate) fn log_everything() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let file = Path::new(&folder).join(format!("log-{}", std::process::id()));
    let file = fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(Mutex::new(file))
        .init();
}

/// Collects what is shown, and looks for secrets in it.
pub(crate) struct Canary {
    folder: PathBuf,
    noted: Arc<Mutex<Vec<String>>>,
    processes: Arc<Mutex<BTreeMap<Vec<u8>, String>>>,
    is_done: Arc<AtomicBool>,
}

impl Canary {
    /// Uses the folder that [`FOLDER`] names: `peers/run-logins` sets it.
    pub(crate) fn start() -> Self {
        let folder = PathBuf::from(std::env::var_os(FOLDER).expect("the folder for logs"));
        let canary =
            Self { folder, noted: Arc::default(), processes: Arc::default(), is_done: Arc::default() };
        let (processes, is_done) = (Arc::clone(&canary.processes), Arc::clone(&canary.is_done));
        std::thread::spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                look_at_processes(&mut processes.lock().unwrap());
                std::thread::sleep(LOOK_INTERVAL);
            }
        });
        canary
    }

    /// Notes text that somebody could see.
    pub(crate) fn note(&self, text: impl Into<String>) {
        self.noted.lock().unwrap().push(text.into());
    }

    /// Notes the `Debug` output of a value.
    pub(crate) fn note_debug(&self, value: &impl Debug) {
        self.note(format!("{value:?} {value:#?}"));
    }

    /// Returns a function that notes events.
    pub(crate) fn event_noter(&self) -> impl Fn(CredentialEvent) + Send + Sync + 'static {
        let noted = Arc::clone(&self.noted);
        move |event| noted.lock().unwrap().push(format!("{event:?}"))
    }

    /// Returns a wire trace into the folder.
    pub(crate) fn wire_trace(&self) -> WireTrace {
        WireTrace::new(fs::File::create(self.folder.join("wire-trace")).unwrap())
    }

    /// Notes the contents of a folder that is about to be deleted.
    pub(crate) fn note_files(&self, folder: &Path) {
        for file in files(folder) {
            self.note(String::from_utf8_lossy(&fs::read(&file).unwrap_or_default()).into_owned());
        }
    }

    /// Returns a place for each secret that was found, and the number of bytes that were searched.
    fn search(&self, secrets: &[String]) -> (Vec<String>, usize) {
        let forms: Vec<(String, Vec<u8>)> = secrets
            .iter()
            .flat_map(|secret| forms(secret))
            .map(|form| (form.clone(), form.into_bytes()))
            .collect();
        let (mut found, mut searched) = (Vec::new(), 0);
        let mut look = |place: &str, bytes: &[u8]| {
            searched += bytes.len();
            for (form, needle) in &forms {
                if let Some(at) = position(bytes, needle) {
                    let before = String::from_utf8_lossy(&bytes[at.saturating_sub(60)..at]).into_owned();
                    found.push(format!("{place}: `{form}` after {before:?}"));
                }
            }
        };
        for text in self.noted.lock().unwrap().iter() {
            look("noted", text.as_bytes());
        }
        for (bytes, place) in self.processes.lock().unwrap().iter() {
            look(place, bytes);
        }
        for file in files(&self.folder) {
            look(&file.display().to_string(), &fs::read(&file).unwrap_or_default());
        }
        (found, searched)
    }

    /// Proves that a planted secret is found in every place and form, and then that none of the real ones is.
    pub(crate) fn check(&self, secrets: &[String]) {
        let planted = "planted+secret/0123456789".to_owned();
        let [raw, base64, _, encoded, ..] = &forms(&planted)[..] else { unreachable!() };
        self.note(raw.as_str());
        tracing::trace!("Authorization: Basic {}", STANDARD.encode(format!("client:{encoded}")));
        fs::write(self.folder.join("elsewhere"), format!("before {encoded} after")).unwrap();
        let mut child = std::process::Command::new("sleep").args(["5"]).env("PLANTED", raw).spawn().unwrap();
        let mut other = std::process::Command::new("sh").args(["-c", "sleep 5", base64]).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        self.is_done.store(true, Ordering::Relaxed);
        for child in [&mut child, &mut other] {
            drop(child.kill());
            drop(child.wait());
        }
        let (found, _) = self.search(std::slice::from_ref(&planted));
        for place in ["noted: ", "/log-", "/elsewhere: ", "environment of", "arguments of"] {
            assert!(found.iter().any(|found| found.contains(place)), "not found in {place}: {found:?}");
        }
        assert!(secrets.len() > 50, "only {} secrets are known", secrets.len());
        let (found, searched) = self.search(secrets);
        assert!(found.is_empty(), "{found:#?}");
        println!(
            "ok  none of {} secrets in {} KiB of what was shown or written",
            secrets.len(),
            searched >> 10
        );
    }
}

/// Returns the forms in which a secret could appear: raw, base64 and URL-encoded, and as a user name or password.
fn forms(secret: &str) -> Vec<String> {
    let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let mut forms =
        vec![secret.to_owned(), STANDARD.encode(secret), URL_SAFE_NO_PAD.encode(secret), encoded.clone()];
    // In the header `Basic`, the secret is a part of a longer base64 text, and was form-encoded before. The place at
    // which it begins changes the characters: three cases.
    for text in [secret, &encoded] {
        forms.extend(["", ":", "::"].map(|before| inner_base64(&format!("{before}{text}"))));
    }
    // Shorter texts appear by chance.
    forms.retain(|form| form == secret || form.len() >= MIN_FORM_LETTERS);
    forms
}

/// Returns the part of the base64 text that does not depend on what comes before and after.
fn inner_base64(text: &str) -> String {
    let encoded = STANDARD_NO_PAD.encode(text);
    encoded.get(4..encoded.len() - 4).unwrap_or(&encoded).to_owned()
}

fn position(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    let first = needle.first()?;
    let mut start = 0;
    while let Some(at) = bytes[start..].iter().position(|byte| byte == first) {
        if bytes[start + at..].starts_with(needle) {
            return Some(start + at);
        }
        start += at + 1;
    }
    None
}

/// Returns all files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

/// Adds the arguments and environments of the processes of this test to those that were seen already.
fn look_at_processes(seen: &mut BTreeMap<Vec<u8>, String>) {
    let Ok(processes) = fs::read_dir("/proc") else { return };
    for process in processes.flatten() {
        let folder = process.path();
        let Ok(environment) = fs::read(folder.join("environ")) else { continue };
        // All processes of this test inherit the variable.
        if position(&environment, FOLDER.as_bytes()).is_none() {
            continue;
        }
        let id = process.file_name().to_string_lossy().into_owned();
        if let Ok(arguments) = fs::read(folder.join("cmdline")) {
            seen.entry(arguments).or_insert_with(|| format!("arguments of {id}"));
        }
        if position(&environment, MAY_HAVE_TOKEN.as_bytes()).is_none() {
            seen.entry(environment).or_insert_with(|| format!("environment of {id}"));
        }
    }
}
