//! A server as a child process. It is started without a shell, in its own process group, and is always ended.
//!
//! # Invariants
//! - A [`Process`] owns the whole group: dropping the `Process` kills the group and reaps the child, with or without a
//!   runtime.
//! - No signal is sent to a group that is known to be empty: its id may already belong to another group.
//! - Standard error is always read, and its end is kept up to a limit.

mod environment;
mod group;
pub(crate) mod ledger;
mod program;
pub(crate) mod stderr;

use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::config::server_config::{CommandTarget, ServerConfig};
use crate::connection::shutdown::{Force, Shutdown};
use crate::error::StartError;
use group::{Group, Signal};
use ledger::{Ledger, Recorded};
use stderr::Stderr;

/// The first pause between two checks of a group that is ending. The group is polled because no event reports the exit
/// of its last member.
const FIRST_POLL_PAUSE: Duration = Duration::from_millis(5);
/// The maximum wait for reaping a killed child. It takes longer only if the child is stuck in the kernel.
const REAP_TIMEOUT: Duration = Duration::from_millis(500);

/// The time that a process has at each step of its shutdown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShutdownTimeouts {
    /// The time to exit after its stdin was closed.
    pub(crate) close: Duration,
    /// The time to exit after SIGTERM.
    pub(crate) terminate: Duration,
}

impl ShutdownTimeouts {
    /// For a server whose connection this client closed.
    pub(crate) const DEFAULT: Self =
        Self { close: Duration::from_secs(3), terminate: Duration::from_secs(1) };
    /// For a server whose handshake failed, or whose connection was lost.
    pub(crate) const SHORT: Self = Self { close: Duration::ZERO, terminate: Duration::from_millis(500) };
}

/// A child process and all other processes in its group.
#[derive(Debug)]
pub(crate) struct Process {
    child: Mutex<Child>,
    group: Group,
    stderr: Stderr,
    /// The entry in the ledger, which is removed when this field is dropped.
    _recorded: Option<Recorded>,
}

/// The ends of the child's pipes that this process uses.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

impl Process {
    /// Starts the program of a server config.
    #[cfg(test)]
    pub(crate) fn start(config: &ServerConfig<CommandTarget>) -> Result<(Self, Pipes), StartError> {
        Self::start_in(config, None)
    }

    /// Starts the program of a server config, and records it in the ledger if there is one.
    pub(crate) fn start_in(
        config: &ServerConfig<CommandTarget>,
        ledger: Option<&Ledger>,
    ) -> Result<(Self, Pipes), StartError> {
        let environment = environment::environment(config, std::env::vars_os());
        let path = program::find(config, &environment)?;
        let mut command = Command::new(&path);
        command.args(&config.target.arguments).env_clear().envs(&environment);
        let mark = ledger.map(Ledger::mark);
        if let Some(mark) = &mark {
            command.env(ledger::MARK_VARIABLE, mark);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(directory) = &config.target.directory {
            command.current_dir(directory);
        }
        group::prepare(&mut command);
        let mut child = command.spawn().map_err(|source| refused(path.clone(), source))?;
        let group = Group::of(&child);
        let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
        let Some(((stdin, stdout), stderr)) = pipes else {
            let source = io::Error::other("the child process has no pipes");
            return Err(StartError::Refused { path, error: std::sync::Arc::new(source) });
        };
        let secrets = config.target.environment.values().map(|value| value.to_string_lossy().into_owned());
        let stderr = Stderr::drain(stderr, secrets.collect(), config.target.inherits_stderr);
        let recorded = ledger
            .zip(group.id())
            .zip(mark)
            .map(|((ledger, group), mark)| ledger.record(group, mark, config.to_string()));
        let process = Self { child: Mutex::new(child), group, stderr, _recorded: recorded };
        Ok((process, Pipes { stdin, stdout }))
    }

    /// Returns the reader of the child's stderr.
    pub(crate) fn stderr(&self) -> &Stderr {
        &self.stderr
    }

    /// Returns the id of the process group, which is also the process id of the child.
    pub(crate) fn group(&self) -> Option<u32> {
        self.group.id()
    }

    /// Waits for the child itself to exit. Does not wait for other processes that hold its pipes open.
    ///
    /// # Cancellation
    /// Cancel safe; it can be called again.
    pub(crate) async fn exited(&self) -> Option<ExitStatus> {
        poll_fn(|cx| self.poll_exited(cx)).await
    }

    fn poll_exited(&self, cx: &mut Context<'_>) -> Poll<Option<ExitStatus>> {
        pin!(self.lock().wait()).poll(cx).map(Result::ok)
    }

    /// Shuts the process down, after its stdin was closed: waits for it to exit, then sends SIGTERM to the group, then
    /// kills the group. Takes at most the sum of both timeouts and half a second.
    ///
    /// # Cancellation
    /// Dropping the process afterwards still kills it.
    pub(crate) async fn end(&self, timeouts: ShutdownTimeouts) -> Shutdown {
        let shutdown = self.end_group(timeouts).await;
        self.group.forget();
        shutdown
    }

    async fn end_group(&self, timeouts: ShutdownTimeouts) -> Shutdown {
        let by_itself = tokio::time::timeout(timeouts.close, self.exited()).await;
        if by_itself.is_ok() && self.group.is_empty() {
            return Shutdown { status: by_itself.ok().flatten(), force: Force::None, ..Shutdown::default() };
        }
        self.group.signal(Signal::Terminate);
        if tokio::time::timeout(timeouts.terminate, self.gone()).await.is_ok() {
            return Shutdown { status: self.status(), force: Force::Terminated, ..Shutdown::default() };
        }
        self.kill_now();
        let _ = tokio::time::timeout(REAP_TIMEOUT, self.exited()).await;
        Shutdown { status: self.status(), force: Force::Killed, ..Shutdown::default() }
    }

    /// Waits until the child is reaped and its group is empty.
    async fn gone(&self) {
        self.exited().await;
        let mut pause = FIRST_POLL_PAUSE;
        while !self.group.is_empty() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(FIRST_POLL_PAUSE * 10);
        }
    }

    fn status(&self) -> Option<ExitStatus> {
        self.lock().try_wait().ok().flatten()
    }

    /// Kills the group and reaps the child, without a runtime.
    pub(crate) fn kill(&self) {
        self.kill_now();
        let until = Instant::now() + REAP_TIMEOUT;
        while matches!(self.lock().try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The remaining members of the group are dead; their parents reap them.
        self.group.forget();
    }

    fn kill_now(&self) {
        self.group.signal(Signal::Kill);
        // Kills the child itself, in case it has no group.
        let _ = self.lock().start_kill();
    }

    fn lock(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn refused(path: PathBuf, source: io::Error) -> StartError {
    // The kernel also reports "not found" for a script whose interpreter is missing, although the script itself was
    // found.
    let is_format = source.kind() == io::ErrorKind::NotFound || group::is_format_error(&source);
    if is_format {
        StartError::WrongFormat { path }
    } else {
        StartError::Refused { path, error: std::sync::Arc::new(source) }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
