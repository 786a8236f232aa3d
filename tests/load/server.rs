//! The server as a process, and how much memory it has.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What one part is given. Then its server is ended, and whoever waits for a response sees the end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the memory of a server may grow by after the warm-up.
const MOST_GROWTH: u64 = 2 << 10;

/// A process that ends with this value.
pub(crate) struct Server {
    child: Arc<Mutex<Child>>,
    pid: u32,
    /// Kept open: a server must be able to complain.
    stderr: BufReader<ChildStderr>,
    /// Ends the watch over the process.
    _watched: Sender<()>,
}

impl Server {
    /// A server on its standard input and output.
    pub(crate) fn stdio() -> Result<(Self, ChildStdin, ChildStdout), String> {
        let server = Self::start(&[])?;
        let mut child = server.child.lock().unwrap_or_else(PoisonError::into_inner);
        let pipes = child.stdin.take().zip(child.stdout.take());
        drop(child);
        let (input, output) = pipes.ok_or("no pipes")?;
        Ok((server, input, output))
    }

    /// A server at a port of its own.
    pub(crate) fn http(arguments: &[&str]) -> Result<(Self, u16), String> {
        let mut server = Self::start(&[&["--http", "127.0.0.1:0"], arguments].concat())?;
        let mut line = String::new();
        server.stderr.read_line(&mut line).map_err(|error| error.to_string())?;
        let port = line.trim().strip_prefix("http://127.0.0.1:").and_then(|rest| rest.strip_suffix("/mcp"));
        let port = port.and_then(|port| port.parse().ok()).ok_or(format!("no address: {line}"))?;
        Ok((server, port))
    }

    fn start(arguments: &[&str]) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let path = own.with_file_name("example-everything");
        let mut child = Command::new(&path)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}; build it first", path.display()))?;
        let pid = child.id();
        let stderr = BufReader::new(child.stderr.take().ok_or("no standard error")?);
        let child = Arc::new(Mutex::new(child));
        let (watched, gone) = channel::<()>();
        let watching = Arc::clone(&child);
        std::thread::spawn(move || {
            if gone.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("no end after {} s: the server is killed", PATIENCE.as_secs());
                kill(&watching);
            }
        });
        Ok(Self { child, pid, stderr, _watched: watched })
    }

    /// Ends the process now.
    pub(crate) fn kill(&self) {
        kill(&self.child);
    }

    /// True if the process ended by itself and says that all was well.
    pub(crate) fn ended_well(&self) -> bool {
        let status = self.child.lock().unwrap_or_else(PoisonError::into_inner).wait();
        status.is_ok_and(|status| status.success())
    }

    /// CPU time that was used, in ticks of the kernel.
    pub(crate) fn cpu_ticks(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/stat", self.pid);
        let stat = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        // The name of the program, in parentheses, may hold anything.
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect::<Vec<_>>());
        let tick = |at: usize| fields.as_ref()?.get(at)?.parse::<u64>().ok();
        tick(11).zip(tick(12)).map(|(user, system)| user + system).ok_or(format!("no times in {path}"))
    }

    /// KiB of memory that are resident.
    pub(crate) fn resident(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/status", self.pid);
        let status = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        kib.ok_or(format!("no VmRSS in {path}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn kill(child: &Mutex<Child>) {
    let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = child.kill();
    let _ = child.wait();
}

/// Resident memory after the warm-up and at the end, in KiB.
#[derive(Clone, Copy)]
pub(crate) struct Growth {
    pub(crate) warm: u64,
    pub(crate) end: u64,
}

impl Growth {
    pub(crate) fn check(self) -> Result<Self, String> {
        if self.end.saturating_sub(self.warm) < MOST_GROWTH {
            Ok(self)
        } else {
            Err(format!("memory grows: {self}, and may by {MOST_GROWTH}"))
        }
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resident {} KiB when warm, {} KiB at the end", self.warm, self.end)
    }
}
