//! A server behind a URL that we start ourselves, and start again.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(20);

/// A program that listens on the port which is its last argument.
pub(crate) struct Program {
    pub(crate) program: PathBuf,
    pub(crate) words: Vec<OsString>,
}

/// One that runs. Dropped, it is killed.
pub(crate) struct Web<'a> {
    pub(crate) url: String,
    port: u16,
    program: &'a Program,
    child: Child,
}

impl Program {
    pub(crate) async fn start(&self) -> Result<Web<'_>, String> {
        // Nobody else asks for ports here, so it stays free.
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.map_err(|error| error.to_string())?.port();
        let child = self.spawn(port).await?;
        Ok(Web { url: format!("http://127.0.0.1:{port}/mcp"), port, program: self, child })
    }

    async fn spawn(&self, port: u16) -> Result<Child, String> {
        let mut command = Command::new(&self.program);
        command.args(&self.words).arg(port.to_string()).kill_on_drop(true);
        command.env("FASTMCP_CHECK_FOR_UPDATES", "off").stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", self.program.display()))?;
        let began = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            if began.elapsed() > START {
                return Err("it does not listen".to_owned());
            }
            if let Ok(Some(status)) = child.try_wait() {
                return Err(format!("it ended with {status}"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(child)
    }
}

impl Web<'_> {
    /// Kills the server, and starts another at the same place, which knows nothing of us.
    pub(crate) async fn restart(&mut self) -> Result<(), String> {
        self.child.kill().await.map_err(|error| error.to_string())?;
        self.child = self.program.spawn(self.port).await?;
        Ok(())
    }
}
