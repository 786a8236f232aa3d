//! Twelve processes that share one login.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use mcp_client::oauth::Credentials;

use crate::canary::Canary;
use crate::server::Server;
use crate::worker::store;

const PROCESSES: usize = 12;

struct Worker {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Worker {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

struct Setting<'a> {
    server: Server,
    kind: &'a str,
    folder: PathBuf,
    _temporary: tempfile::TempDir,
}

impl Setting<'_> {
    /// A server, and a store with a fresh login.
    async fn new<'a>(servers: &Path, kind: &'a str) -> Setting<'a> {
        let temporary = tempfile::tempdir().unwrap();
        let (server, folder) = (Server::start(servers), temporary.path().join("credentials"));
        let credentials = Credentials::of(store(kind, &folder));
        server.log_in(&credentials, &server.user("cli-short"), "approve").await.unwrap();
        Setting { server, kind, folder, _temporary: temporary }
    }

    fn worker(&self, mode: &str) -> Worker {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["worker", mode, self.kind])
            .arg(&self.folder)
            .arg(&self.server.issuer)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Worker { process, input, output: BufReader::new(output) }
    }

    async fn refreshes(&self) -> (u64, u64) {
        let counts = self.server.counts().await;
        let count = |name: &str| counts.get(name).copied().unwrap_or_default();
        (count("refresh_token ok"), count("refresh_token invalid_grant"))
    }
}

/// Runs the tests. Returns the secrets that were issued.
pub(crate) async fn run(servers: &Path, kind: &str, canary: &Canary) -> Vec<String> {
    let mut secrets = Vec::new();
    for setting in [
        rotations(servers, kind, canary).await,
        killed_before_sending(servers, kind, canary).await,
        killed_before_saving(servers, kind, canary).await,
    ] {
        secrets.extend(setting.server.secrets().await);
        canary.note_files(&setting.folder);
    }
    secrets
}

/// Tokens live for four seconds, so each is refreshed after three.
async fn rotations<'a>(servers: &Path, kind: &'a str, canary: &Canary) -> Setting<'a> {
    let setting = Setting::new(servers, kind).await;
    let mut workers: Vec<Worker> = (0..PROCESSES).map(|_| setting.worker("share")).collect();
    let mut seen = BTreeSet::new();
    for worker in &mut workers {
        let mut output = String::new();
        worker.output.read_to_string(&mut output).unwrap();
        assert!(worker.process.wait().unwrap().success(), "{output}");
        canary.note(output.clone());
        for line in output.lines() {
            seen.insert(line.strip_prefix("token ").unwrap_or_else(|| panic!("{kind}: {line}")).to_owned());
        }
    }
    let (refreshed, refused) = setting.refreshes().await;
    assert_eq!(refused, 0, "a spent token was redeemed");
    assert!((2..=4).contains(&refreshed), "{refreshed} refreshes in 10 s");
    // The first token came from the login.
    assert!(
        seen.len() as u64 <= refreshed + 1 && seen.len() as u64 >= refreshed,
        "{} of {refreshed}",
        seen.len()
    );
    println!("ok  {kind}: {PROCESSES} processes, {refreshed} rotations, {refreshed} requests, none refused");
    setting
}

/// Starts twelve processes that all need a new token at the same time.
fn waiting(setting: &Setting<'_>) -> Vec<Worker> {
    let mut workers: Vec<Worker> = (0..PROCESSES).map(|_| setting.worker("once")).collect();
    for worker in &mut workers {
        assert_eq!(worker.line(), "ready");
    }
    workers
}

fn results(workers: &mut [Worker], started: Instant) -> Vec<String> {
    let lines = workers.iter_mut().map(Worker::line).collect();
    assert!(started.elapsed() < Duration::from_secs(16), "{:?}", started.elapsed());
    lines
}

fn begin(workers: &mut [Worker]) -> Instant {
    for worker in workers {
        writeln!(worker.input).unwrap();
    }
    Instant::now()
}

async fn killed_before_sending<'a>(servers: &Path, kind: &'a str, canary: &Canary) -> Setting<'a> {
    let setting = Setting::new(servers, kind).await;
    let mut workers = waiting(&setting);
    let mut holder = setting.worker("hold");
    assert_eq!(holder.line(), "held");
    let started = begin(&mut workers);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(setting.refreshes().await, (0, 0), "they wait for the lock");
    drop(holder);
    let lines = results(&mut workers, started);
    canary.note(lines.join("\n"));
    let tokens: BTreeSet<&String> = lines.iter().collect();
    assert!(tokens.len() == 1 && lines[0].starts_with("token "), "{kind}: {lines:?}");
    assert_eq!(setting.refreshes().await, (1, 0));
    println!("ok  {kind}: holder killed before it sent: the others refresh once");
    setting
}

async fn killed_before_saving<'a>(servers: &Path, kind: &'a str, canary: &Canary) -> Setting<'a> {
    let setting = Setting::new(servers, kind).await;
    let mut workers = waiting(&setting);
    let mut staller = setting.worker("stall");
    assert_eq!(staller.line(), "stalled");
    let started = begin(&mut workers);
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(staller);
    let lines = results(&mut workers, started);
    canary.note(lines.join("\n"));
    assert!(lines.iter().all(|line| line.starts_with("error login needed")), "{kind}: {lines:?}");
    // The new token is lost with its process. One process finds out, and deletes the spent one.
    assert_eq!(setting.refreshes().await, (1, 1));
    let credentials = Credentials::of(store(kind, &setting.folder));
    let status = credentials.status(&setting.server.user("cli-short")).await.unwrap();
    assert!(status.is_none());
    println!(
        "ok  {kind}: holder killed before it saved: a login is needed, after {:.1} s",
        started.elapsed().as_secs_f64()
    );
    setting
}
