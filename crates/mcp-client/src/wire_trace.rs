//! The wire trace of a client: every message, written for debugging.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use mcp_protocol::wire_trace::{Secrets, WireDirection, WireLog};

/// A wire trace, for debugging: it shows every message of a connection, with its time and direction. Set it with
/// [`Connect::wire_trace`](crate::Connect::wire_trace).
///
/// Each message is one line. `-->` marks a message that was sent, `<--` one that was received:
///
/// ```text
/// 12:34:56.007 --> [weather] {"jsonrpc":"2.0","id":1,"method":"tools/list"}
/// 12:34:56.019 <-- [weather] {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}
/// ```
///
/// Bodies are shown unchanged, and may contain secrets. The values of the environment variables and headers of the
/// server config, session ids, and all HTTP headers that are not known to be harmless are masked. Clones share the
/// writer, so that one trace can show several connections.
///
/// The writer is called when a message is sent or received, and is flushed after each line, so that the last message
/// before a crash is in the trace. A writer that blocks therefore blocks the connection: use a file, not a pipe that
/// nobody reads. If the writer fails, the trace ends, but the connection continues.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use mcp_client::{McpClient, ServerConfig, WireTrace};
///
/// let trace = WireTrace::new(std::fs::File::create("weather.trace")?);
/// let client = McpClient::builder(ServerConfig::command("weather")).wire_trace(&trace).connect().await?;
/// # client.close().await; Ok(()) }
/// ```
#[doc(alias = "debug")]
#[doc(alias = "log")]
#[derive(Clone, Debug)]
pub struct WireTrace(Arc<SharedTrace>);

#[derive(Debug)]
struct SharedTrace {
    log: Mutex<WireLog>,
    exchanges: AtomicU64,
}

impl WireTrace {
    /// Creates a trace that is written to `writer`.
    #[must_use]
    pub fn new(writer: impl std::io::Write + Send + 'static) -> Self {
        Self(Arc::new(SharedTrace { log: Mutex::new(WireLog::new(writer)), exchanges: AtomicU64::new(1) }))
    }

    /// Returns the trace of one connection.
    pub(crate) fn connection(
        &self,
        label: &str,
        secrets: impl IntoIterator<Item = String>,
    ) -> ConnectionTrace {
        ConnectionTrace {
            trace: self.clone(),
            label: format!("[{label}]").into(),
            secrets: Arc::new(Secrets::new(secrets)),
        }
    }
}

/// The trace of one connection, or of one HTTP exchange of it.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionTrace {
    trace: WireTrace,
    label: Arc<str>,
    secrets: Arc<Secrets>,
}

impl ConnectionTrace {
    /// Returns the trace of the next HTTP exchange. Its lines show the number of the exchange.
    #[allow(dead_code, reason = "only HTTP has exchanges, and it may be disabled")]
    pub(crate) fn exchange(&self) -> Self {
        let number = self.trace.0.exchanges.fetch_add(1, Ordering::Relaxed);
        Self { label: format!("{} #{number}", self.label).into(), ..self.clone() }
    }

    pub(crate) fn write(&self, direction: WireDirection, text: &str) {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut log = self.trace.0.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = log.write(time, direction, &self.label, &self.secrets.mask(text)) {
            tracing::warn!(%error, "the wire trace cannot be written any more");
        }
    }
}
