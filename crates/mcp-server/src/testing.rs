//! Testing a server in memory, through the same code as stdio.
//!
//! [`McpServer::in_memory`] starts a server and returns two byte streams, over which a client connects, for example
//! with `mcp_client::McpClient::over`. [`RawClient`] sends and receives single messages, for tests of the protocol
//! itself.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use mcp_protocol::Limits;
use mcp_protocol::codec::line::{Line, Lines};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinSet;

use crate::call::identity::Principal;
use crate::error::Error;
use crate::link::pipe::{PipeReader, PipeWriter, pipe};
use crate::link::{driver, io as stream};
use crate::server::McpServer;

/// The capacity of the pipe in each direction, in bytes.
const PIPE_BYTES: usize = 64 << 10;

/// The end of the pipe that a client reads. Owns the task of the server: dropping it stops the server.
#[derive(Debug)]
struct ServerOutput {
    pipe: PipeReader,
    _server: JoinSet<()>,
}

impl AsyncRead for ServerOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(cx, buf)
    }
}

impl McpServer {
    /// Starts the server in a tokio task, and returns the two streams of its client: the first to read from, the second
    /// to write to. Dropping the first one stops the server.
    ///
    /// In a test, add `mcp-client` as a development dependency and connect it with
    /// `mcp_client::McpClient::over(server.in_memory()?).connect().await?`; or read and write the streams directly:
    ///
    /// ```
    /// use mcp_server::McpServer;
    /// use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (reader, mut writer) = McpServer::named("calculator", "1").in_memory()?;
    /// writer.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await?;
    /// let answer = BufReader::new(reader).lines().next_line().await?;
    /// assert!(answer.is_some_and(|line| line.contains("\"id\":1")));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Fails if the server is not configured correctly.
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    #[doc(alias = "test")]
    #[doc(alias = "duplex")]
    pub fn in_memory(
        self,
    ) -> Result<
        (
            impl AsyncRead + Send + Sync + Unpin + std::fmt::Debug + 'static,
            impl AsyncWrite + Send + Sync + Unpin + std::fmt::Debug + 'static,
        ),
        Error,
    > {
        self.start_in_memory()
    }

    fn start_in_memory(self) -> Result<(ServerOutput, PipeWriter), Error> {
        let core = self.into_core(usize::MAX)?;
        let (input, mut reader) = pipe(PIPE_BYTES);
        let (mut writer, output) = pipe(PIPE_BYTES);
        let mut server = JoinSet::new();
        server.spawn(async move {
            if let Err(error) =
                driver::drive(&core, &mut reader, &mut writer, None, Principal::default()).await
            {
                tracing::warn!(%error, "the connection in memory failed");
            }
        });
        Ok((ServerOutput { pipe: output, _server: server }, input))
    }
}

/// An in-memory client that sends and receives single JSON-RPC messages and applies no rules of MCP to them. It is for
/// tests that send messages that a real client would not send, or that inspect messages. For all other tests connect a
/// real client over [`in_memory`](McpServer::in_memory).
///
/// ```
/// use mcp_server::testing::RawClient;
/// use mcp_server::{McpServer, tool};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut client = RawClient::new(McpServer::named("one", "1").tool(tool("one", || async { "1" })))?;
/// let response = client.request("tools/call", json!({"name": "one"})).await?;
/// assert_eq!(response["result"]["content"][0]["text"], "1");
///
/// client.send(&json!({"jsonrpc": "2.0", "id": "x", "method": "ping", "params": 7})).await?;
/// assert_eq!(client.receive().await?["error"]["code"], -32600);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RawClient {
    reader: ServerOutput,
    writer: PipeWriter,
    lines: Lines,
    next_id: u64,
}

impl RawClient {
    /// Starts a server in a tokio task and connects to it.
    ///
    /// # Errors
    /// Fails if the server is not configured correctly.
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    pub fn new(server: McpServer) -> Result<Self, Error> {
        let (reader, writer) = server.start_in_memory()?;
        Ok(Self { reader, writer, lines: Lines::new(&Limits::default()), next_id: 1 })
    }

    /// Sends a request of MCP 2026-07-28, and returns the response message. If `params` is an object without `_meta`,
    /// adds one that declares no client capabilities. Messages that arrive before the response are dropped.
    ///
    /// # Errors
    /// Fails if the server closed the connection or sent a line that is not JSON or is too long.
    pub async fn request(&mut self, method: &str, mut params: Value) -> io::Result<Value> {
        let id = Value::from(self.next_id);
        self.next_id += 1;
        if let Some(params) = params.as_object_mut() {
            params.entry("_meta").or_insert_with(|| {
                json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                })
            });
        }
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await?;
        loop {
            let message = self.receive().await?;
            if message["id"] == id && message.get("method").is_none() {
                return Ok(message);
            }
        }
    }

    /// Sends a message without changing it.
    ///
    /// # Errors
    /// Fails if the server closed the connection.
    pub async fn send(&mut self, message: &Value) -> io::Result<()> {
        let line = format!("{message}\n");
        let mut bytes = line.as_bytes();
        while !bytes.is_empty() {
            let count = stream::write(&mut self.writer, bytes).await?.count;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// Waits for the next message and returns it.
    ///
    /// # Errors
    /// Fails if the server closed the connection or sent a line that is not JSON or is too long.
    pub async fn receive(&mut self) -> io::Result<Value> {
        loop {
            match self.lines.poll_line() {
                Some(Line::Whole(line)) => return Ok(serde_json::from_slice(line)?),
                Some(_) => {
                    return Err(io::Error::other("the server sent a line longer than the message limit"));
                }
                None => {}
            }
            if stream::read(&mut self.reader, self.lines.space(), PIPE_BYTES).await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
        }
    }
}
