//! The driver of one link: moves bytes between the server and the protocol machines, and wakes the callers.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use mcp_protocol::codec::line::{Lines, ReadSize};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

use crate::connection::alarm::{Alarm, until};
use crate::connection::handlers::Handlers;
use crate::connection::inbound::Inbound;
use crate::connection::shutdown::Shutdown;
use crate::connection::{Connection, Writer, now};
use crate::error::{ConnectionEnd, EndCause};
use crate::stream::io::{read, write};
use crate::stream::link::{Link, LinkProcess};

/// The maximum time for reading the stdout of an exited process: another process may keep the pipe open forever.
pub(crate) const FINAL_READ_TIMEOUT: Duration = Duration::from_millis(200);
/// The maximum wait for the exit of a server that closed its stdout.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// The timeout for writing the queued messages before the link is closed.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(250);
/// The capacity that an empty write buffer keeps.
const MAX_IDLE_BUFFER_BYTES: usize = 64 << 10;

/// The state of the loop.
pub(crate) struct StreamDriver {
    pub(crate) connection: Arc<Connection>,
    pub(crate) link: Link,
    pub(crate) lines: Lines,
    pub(crate) handlers: Arc<Handlers>,
    /// Lines received before the era was known.
    pub(crate) held: Vec<Vec<u8>>,
    pub(crate) report: watch::Sender<Option<Shutdown>>,
}

impl StreamDriver {
    /// Runs until the link ends, then ends the server process.
    pub(crate) async fn run(self) {
        let Self { connection, link, mut lines, handlers, held, report } = self;
        let Link { mut reader, writer, process } = link;
        let mut inbound = Inbound::new(handlers, Some(Box::new(process.clone())));
        for line in held {
            inbound.handle_line(&connection, &line, now());
        }
        // Settles the requests in flight even if this future is dropped or panics.
        let guard = EndGuard(Arc::clone(&connection));
        let cause = serve(&connection, &mut *reader, writer, &mut lines, &process, &mut inbound).await;
        let is_closed = cause == EndCause::Closed;
        if is_closed {
            connection.end(ConnectionEnd { cause, ..ConnectionEnd::default() });
        } else {
            let stray_line = connection.lock().stray_line.clone();
            let ended = describe_end(cause, &process).await;
            connection.end(ConnectionEnd {
                stray_line: stray_line.as_deref().unwrap_or_default().to_owned(),
                ..ended
            });
        }
        drop(guard);
        // Drops the handlers that still run, without waiting for a handler that blocks its thread.
        drop(inbound);
        // The server's stdin is closed now, which tells it to exit. Its output is still read, because a full pipe would
        // block it.
        let drain = async {
            let mut discarded = Vec::with_capacity(MAX_IDLE_BUFFER_BYTES);
            while matches!(reader.read_buf(&mut discarded).await, Ok(1..)) {
                discarded.clear();
            }
            std::future::pending::<()>().await;
        };
        let shutdown = tokio::select! {
            shutdown = process.end(is_closed) => shutdown,
            () = drain => Shutdown::default(),
        };
        connection.record_exit(shutdown.status);
        // A restart waits for this before it opens another link.
        let _ = report.send(Some(shutdown));
    }
}

/// Ends a connection when dropped, unless it has ended already.
struct EndGuard(Arc<Connection>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.end_unfinished();
    }
}

/// Describes the end of a link: the cause, and the exit status and stderr of the process.
async fn describe_end(cause: EndCause, process: &LinkProcess) -> ConnectionEnd {
    let status = process.exits_within(EXIT_GRACE).await;
    ConnectionEnd { cause, status, stderr: process.stderr().await, ..ConnectionEnd::default() }
}

async fn serve(
    connection: &Arc<Connection>,
    reader: &mut (dyn AsyncRead + Send + Unpin),
    writer: Writer,
    lines: &mut Lines,
    process: &LinkProcess,
    inbound: &mut Inbound,
) -> EndCause {
    let mut writing: Vec<u8> = Vec::new();
    let mut written = 0;
    // A writer that the host supplied may buffer.
    let mut is_flushed = true;
    // The writer is kept here while there is something to write. Otherwise it is in the state, where callers can use
    // it.
    let mut writer = Some(writer);
    let mut read_size = ReadSize::default();
    let mut alarm = Alarm::new();
    // The time to stop reading the pipe, once the process has exited.
    let mut read_deadline: Option<tokio::time::Instant> = None;
    let mut close_deadline: Option<tokio::time::Instant> = None;
    // Lines received during the negotiation.
    if let Some(cause) = inbound.handle_lines(connection, lines, now()) {
        return cause;
    }
    loop {
        // On a multi-threaded runtime, the first caller that runs wakes this task, which would then run before the
        // other callers.
        if writing.is_empty() && connection.lock().has_woken_callers() {
            tokio::task::yield_now().await;
        }
        let is_written;
        {
            let mut state = connection.lock();
            state.clear_changed();
            if writer.is_none() {
                (writer, is_flushed) = state.take_writer();
            }
            if writing.is_empty() {
                state.queue_transmits(connection.dialect());
                // Lines that are queued while a caller writes are written after those of the caller.
                if writer.is_some() {
                    state.take_lines(&mut writing);
                }
            }
            if writing.is_empty() && is_flushed {
                state.give_writer(writer.take());
            }
            if state.is_closing() && close_deadline.is_none() {
                close_deadline = Some(tokio::time::Instant::now() + FLUSH_TIMEOUT);
            }
            alarm.set(state.peer.poll_timeout().map(|(instant, _)| instant));
            state.set_driver_due(alarm.at);
            is_written = writing.is_empty() && is_flushed && !state.is_writer_lent();
            // Somebody else ended the connection.
            if let Some(ended) = state.ended() {
                return ended.cause.clone();
            }
        }
        if close_deadline.is_some_and(|until| is_written || tokio::time::Instant::now() >= until) {
            return EndCause::Closed;
        }
        // Every branch is cancel-safe: nothing is lost between two iterations.
        tokio::select! {
            biased;
            () = alarm.elapsed() => {
                let mut state = connection.lock();
                state.peer.handle_timeout(now());
                state.settle_failures();
            }
            result = write_queued(&mut writer, &writing[written..]), if writer.is_some() => match result {
                Ok((count, flushed)) => {
                    is_flushed = flushed;
                    connection.lock().wrote(count);
                    written += count;
                    if written == writing.len() {
                        written = 0;
                        // Keeps the capacity while messages are large; shrinks at the first small message.
                        if writing.len() < writing.capacity() / 4 {
                            writing.shrink_to(MAX_IDLE_BUFFER_BYTES);
                        }
                        writing.clear();
                    }
                }
                // A server that exited may have written the reason. It is read first.
                Err(error) if read_deadline.is_none() => {
                    handle_final_output(connection, reader, lines, inbound).await;
                    return EndCause::Write(error.to_string());
                }
                Err(error) => return EndCause::Write(error.to_string()),
            },
            () = inbound.respond_next(connection), if inbound.has_running_handlers() => {}
            () = poll_fn(|cx| if connection.lock().poll_changed(cx) { Poll::Ready(()) } else { Poll::Pending }) => {}
            read = read(reader, lines.space(), read_size.bytes()) => match read {
                Ok(0) => {
                    inbound.handle_rest(connection, lines, now());
                    return EndCause::Server;
                }
                Ok(count) => {
                    read_size.handle_read(count);
                    if let Some(cause) = inbound.handle_lines(connection, lines, now()) {
                        return cause;
                    }
                }
                Err(error) => return EndCause::Read(error.to_string()),
            },
            _ = process.exited(), if read_deadline.is_none() => {
                read_deadline = Some(tokio::time::Instant::now() + FINAL_READ_TIMEOUT);
            }
            () = until(read_deadline), if read_deadline.is_some() => return EndCause::Server,
            () = until(close_deadline), if close_deadline.is_some() => return EndCause::Closed,
        }
    }
}

/// Reads and handles, for a short time, the output that a server wrote before it closed its stdin.
async fn handle_final_output(
    connection: &Connection,
    reader: &mut (dyn AsyncRead + Send + Unpin),
    lines: &mut Lines,
    inbound: &mut Inbound,
) {
    let until = tokio::time::Instant::now() + FINAL_READ_TIMEOUT;
    while let Ok(Ok(1..)) =
        tokio::time::timeout_at(until, read(reader, lines.space(), ReadSize::MAX_BYTES)).await
    {
        inbound.handle_lines(connection, lines, now());
    }
    inbound.handle_rest(connection, lines, now());
}

async fn write_queued(writer: &mut Option<Writer>, bytes: &[u8]) -> io::Result<(usize, bool)> {
    match writer {
        Some(writer) => write(&mut **writer, bytes).await,
        None => std::future::pending().await,
    }
}
