//! The I/O loop of one client over any pair of byte streams, one message per line.
//!
//! A call is first polled once inside this loop. Most calls are then complete, and their responses are written together
//! with the responses to the other lines that were read. Only a call that is still pending is spawned as a task.

mod batch;
mod negotiate;
mod subscriptions;
mod tasks;

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_protocol::codec::line::{Line, Lines, ReadSize};
use mcp_protocol::errors::DecodeError;
use mcp_protocol::messages::{Id, Incoming, Message, parse_bytes};
use mcp_protocol::negotiation::{StdioClassification, StdioServerNegotiation};
use mcp_protocol::peer::{Arrival, DuplicateIds, IgnoreReason};
use mcp_protocol::wire_trace::WireDirection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use super::io::{WriteBuffer, read, write};
use crate::budget::{Budget, Share};
use crate::call::context::Requester;
use crate::call::identity::Principal;
use crate::connection::outlet::{Outlet, OutletFraming};
use crate::connection::{Client, Connection};
use crate::dispatch::core::Core;
use crate::dispatch::router::RequestAction;
use crate::wire_trace::TracedStream;
use negotiate::Admission;
use subscriptions::Subscriptions;
use tasks::{RunningTask, TaskOutput};

/// The number of unwritten bytes above which reading stops.
const MAX_UNWRITTEN_BYTES: usize = 1 << 20;
/// The time limit for writing the remaining messages after calls were cancelled, and the limit for dropping the calls.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves one client, who is `principal`, until it closes its end. Memory held for the client is charged to `memory`, if there is a budget.
///
/// The streams are trait objects, so that this function is compiled only once for all stream types.
pub(crate) fn drive<'a>(
    core: &'a Arc<Core>,
    reader: &'a mut (dyn AsyncRead + Send + Unpin),
    writer: &'a mut (dyn AsyncWrite + Send + Unpin),
    memory: Option<Arc<Budget>>,
    principal: Principal,
) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>> {
    let Some(trace) = &core.wire_trace else {
        return Box::pin(serve(core, reader, writer, memory, principal));
    };
    let mut reader = TracedStream::new(reader, trace, WireDirection::Received);
    let mut writer = TracedStream::new(writer, trace, WireDirection::Sent);
    Box::pin(async move { serve(core, &mut reader, &mut writer, memory, principal).await })
}

async fn serve(
    core: &Arc<Core>,
    reader: &mut (dyn AsyncRead + Send + Unpin),
    writer: &mut (dyn AsyncWrite + Send + Unpin),
    memory: Option<Arc<Budget>>,
    principal: Principal,
) -> io::Result<()> {
    let mut driver = Driver::new(core, memory, principal);
    let mut changes = core.registry.changes();
    let mut lines = Lines::new(&core.limits);
    let mut writing = WriteBuffer::default();
    // Set after the end of input: first the deadline of the calls in flight, then that of the remaining output.
    let mut ending: Option<tokio::time::Instant> = None;
    let mut cancelled = false;
    // True at the end of input. Lines that were already read may still be unprocessed.
    let mut is_end = false;
    // It adapts also because the buffer space is zeroed before each read.
    let mut read_size = ReadSize::default();
    // False while the writer may hold bytes that are not flushed.
    let mut is_flushed = true;
    loop {
        if ending.is_none() {
            match driver.handle_lines(&mut lines) {
                LineProgress::AllLines if is_end => {
                    if !lines.rest().is_empty() {
                        driver.handle_line(lines.rest());
                    }
                    ending = Some(driver.end());
                }
                LineProgress::Closed => ending = Some(driver.end()),
                LineProgress::AllLines | LineProgress::OutputFull => {}
            }
        }
        if driver.memory.is_some() {
            lines.shrink();
        }
        writing.refill(&driver.outlet);
        if ending.is_some() && driver.runs.is_empty() && writing.is_empty() && is_flushed {
            break;
        }
        let reads = ending.is_none() && !is_end && driver.has_room();
        tokio::select! {
            biased;
            // Every branch is cancel-safe.
            written = write(writer, writing.rest()), if !writing.is_empty() || !is_flushed => match written {
                Ok(written) => {
                    is_flushed = written.is_flushed;
                    writing.advance(written.count, &driver.outlet);
                }
                // The client has closed its end.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                Err(error) => return Err(error),
            },
            Some(ended) = driver.runs.join_next_with_id(), if !driver.runs.is_empty() => driver.handle_task_end(ended),
            () = driver.outlet.filled(), if writing.is_empty() => {}
            change = changes.recv() => driver.handle_change(change),
            read = read(reader, lines.space(), read_size.bytes()), if reads => {
                driver.now = Instant::now();
                let count = read?;
                is_end = count == 0;
                read_size.handle_read(count);
            }
            // Limits the waiting time for calls and for a client that does not read.
            () = wait_until(ending), if ending.is_some() => {
                if cancelled {
                    break;
                }
                driver.cancel_all();
                cancelled = true;
                ending = Some(tokio::time::Instant::now() + FLUSH_TIMEOUT);
            }
        }
    }
    driver.connection.close();
    driver.outlet.close();
    // A handler that blocks its thread cannot be stopped, so the wait is limited.
    let _ = tokio::time::timeout(FLUSH_TIMEOUT, driver.runs.shutdown()).await;
    Ok(())
}

async fn wait_until(instant: Option<tokio::time::Instant>) {
    if let Some(instant) = instant {
        tokio::time::sleep_until(instant).await;
    }
}

/// The result of processing the lines that were read.
enum LineProgress {
    /// All complete lines were processed.
    AllLines,
    /// Lines are left: the output buffer is full, and the client has to read first.
    OutputFull,
    /// The connection must be closed.
    Closed,
}

/// The state of one client.
struct Driver<'a> {
    core: &'a Arc<Core>,
    negotiation: StdioServerNegotiation,
    connection: Arc<Connection>,
    client: Option<Arc<Client>>,
    principal: Principal,
    /// The sender of the last request, which usually sends the next one, too.
    requester: Option<Requester>,
    outlet: Arc<Outlet>,
    /// The tasks of the calls in flight, and their data by task id.
    runs: JoinSet<TaskOutput>,
    running: HashMap<tokio::task::Id, RunningTask>,
    /// The tasks in `running` that answer one request, by its id. Ids in flight are unique.
    task_of_request: HashMap<Id, tokio::task::Id>,
    subscriptions: Subscriptions,
    memory: Option<Arc<Budget>>,
    /// The memory of client info and capabilities.
    client_memory: Option<Share>,
    now: Instant,
}

impl<'a> Driver<'a> {
    fn new(core: &'a Arc<Core>, memory: Option<Arc<Budget>>, principal: Principal) -> Self {
        let versions = &core.registry.snapshot().settings.versions;
        let connection = Connection::new(core.limits.clone(), DuplicateIds::Unnamed, memory.as_ref());
        Self {
            core,
            negotiation: StdioServerNegotiation::new(versions),
            connection: Arc::new(connection),
            client: None,
            principal,
            requester: None,
            outlet: Arc::new(Outlet::new(OutletFraming::Lines, MAX_UNWRITTEN_BYTES, memory.clone())),
            runs: JoinSet::new(),
            running: HashMap::new(),
            task_of_request: HashMap::new(),
            subscriptions: Subscriptions::default(),
            memory,
            client_memory: None,
            now: Instant::now(),
        }
    }

    /// Returns true if the output buffer has room for more messages.
    fn has_room(&self) -> bool {
        self.outlet.len() < MAX_UNWRITTEN_BYTES
    }

    /// Processes complete lines while the output buffer has room.
    fn handle_lines(&mut self, lines: &mut Lines) -> LineProgress {
        while self.has_room() {
            let continues = match lines.poll_line() {
                None => return LineProgress::AllLines,
                Some(Line::Whole(line)) => self.handle_line(line),
                Some(Line::TooLong(error)) => self.handle_unreadable(&error),
                Some(Line::Endless) => false,
            };
            if !continues {
                return LineProgress::Closed;
            }
        }
        LineProgress::OutputFull
    }

    /// Handles the end of input: ends subscription streams, and returns the deadline of the calls in flight.
    fn end(&mut self) -> tokio::time::Instant {
        self.end_subscriptions();
        tokio::time::Instant::now() + self.core.grace
    }

    /// Handles one line. Returns false if the connection must be closed.
    fn handle_line(&mut self, line: &[u8]) -> bool {
        match parse_bytes(line, &self.core.limits) {
            Ok(Incoming::Message(message)) => self.handle_message(&message),
            Ok(Incoming::Batch(batch)) => self.handle_batch(&batch),
            Err(error) => return self.handle_unreadable(&error),
        }
        true
    }

    fn handle_unreadable(&mut self, error: &DecodeError) -> bool {
        tracing::debug!(%error, "the client sent a line that is not a JSON-RPC message");
        let arrival = self.connection.lock().peer.handle_unreadable(error);
        if let Arrival::BrokenResponse(call) = arrival {
            self.connection.settle_broken(call);
            return true;
        }
        let continues = self.negotiation.classify_unreadable(error) != StdioClassification::Close;
        self.transmit();
        continues
    }

    fn handle_message(&mut self, message: &Message<'_>) {
        let arrival = self.connection.lock().peer.handle_message(message, self.now);
        match (arrival, message) {
            (Arrival::Request, Message::Request(request)) => match self.negotiate(message, request) {
                Admission::Route(requester) => {
                    let dialect = requester.dialect;
                    let action = self.core.route(request, &requester);
                    self.requester = Some(requester);
                    match action {
                        RequestAction::Reply(reply) => self.answer(&request.id, dialect, &reply),
                        RequestAction::Run(run) => self.poll_or_spawn(request, dialect, run),
                        RequestAction::Listen(filter) => self.open_subscription(&request.id, dialect, filter),
                    }
                }
                Admission::Reply(dialect, reply) => self.answer(&request.id, dialect, &reply),
            },
            (Arrival::Response(call), Message::Response(response)) => self.connection.settle(call, response),
            (Arrival::Cancelled(id), _) => self.cancel(&id),
            (Arrival::Ignored(IgnoreReason::Rejected), _) => self.transmit(),
            _ => {}
        }
    }

    fn transmit(&self) {
        let dialect = self.dialect();
        Connection::transmit(&mut self.connection.lock(), &self.outlet, dialect);
    }
}
