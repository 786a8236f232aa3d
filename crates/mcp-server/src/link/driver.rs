//! The I/O loop of one client over any pair of byte streams, one message per line.
//!
//! A call is polled once in place. Most calls are done then, and their responses are written together with those of the
//! other lines that were read; only a pending call is spawned.

pub(crate) mod changes;

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker, ready};
use std::time::{Duration, Instant};

use mcp_protocol::Dialect;
use mcp_protocol::codec::line::{Line, Lines};
use mcp_protocol::errors::{DecodeError, ErrorObject};
use mcp_protocol::messages::{Batch, Id, Incoming, Message, Method, Request, parse_bytes};
use mcp_protocol::negotiation::{ServerVerdict, StdioServer};
use mcp_protocol::peer::{Arrival, DuplicateIds, Ignored};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::{AbortHandle, JoinSet};

use crate::budget::{Budget, Share};
use crate::call::context::{Context, Exchange, Legacy, Principal};
use crate::call::reply::Reply;
use crate::connection::outlet::{Framing, Outlet};
use crate::connection::{Client, Connection, error_response};
use crate::dispatch::router::{Core, Route};
use crate::dispatch::run::{Run, panicked};
use crate::offer::registry::Change;
use changes::{Subscriber, Subscriptions};

/// The size of one read in bytes. Adapts to the input, because the space is zeroed before each read.
const READ_BYTES: std::ops::RangeInclusive<usize> = (4 << 10)..=(64 << 10);
/// The number of unwritten bytes above which reading stops.
const MAX_UNWRITTEN_BYTES: usize = 1 << 20;
/// The time limit for writing the remaining messages after calls were cancelled, and for dropping the calls.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// The error message for an `initialize` that exceeds the memory limit.
const NO_CLIENT_MEMORY: &str = "memory limit for clients reached; retry later";
/// The capacity that an empty buffer keeps, in bytes.
const KEPT_CAPACITY: usize = 64 << 10;

/// Serves one client until it closes its end. Memory held for the client is charged to `memory`, if there is a budget.
///
/// Takes trait objects, so that it is compiled once for all stream types.
pub(crate) fn drive<'a>(
    core: &'a Arc<Core>,
    reader: &'a mut (dyn AsyncRead + Send + Unpin),
    writer: &'a mut (dyn AsyncWrite + Send + Unpin),
    memory: Option<Arc<Budget>>,
) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>> {
    Box::pin(serve(core, reader, writer, memory))
}

async fn serve(
    core: &Arc<Core>,
    reader: &mut (dyn AsyncRead + Send + Unpin),
    writer: &mut (dyn AsyncWrite + Send + Unpin),
    memory: Option<Arc<Budget>>,
) -> io::Result<()> {
    let mut driver = Driver::new(core, memory);
    let mut changes = core.registry.changes();
    let mut lines = Lines::new(&core.limits);
    let mut writing = WriteBuffer::default();
    // The deadline after the end of input: first of the calls in flight, then of the remaining output.
    let mut ending: Option<tokio::time::Instant> = None;
    let mut cancelled = false;
    // End of input; lines that were read may still be unprocessed.
    let mut is_end = false;
    let mut room = *READ_BYTES.start();
    // The writer may buffer.
    let mut is_flushed = true;
    loop {
        if ending.is_none() {
            match driver.lines(&mut lines) {
                Progress::AllLines if is_end => {
                    if !lines.rest().is_empty() {
                        driver.whole_line(lines.rest());
                    }
                    ending = Some(driver.end());
                }
                Progress::Closed => ending = Some(driver.end()),
                Progress::AllLines | Progress::OutputFull => {}
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
            Some(ended) = driver.runs.join_next_with_id(), if !driver.runs.is_empty() => driver.ended(ended),
            () = driver.outlet.filled(), if writing.is_empty() => {}
            change = changes.recv() => driver.changed(change),
            read = read(reader, lines.space(), room), if reads => {
                driver.now = Instant::now();
                let count = read?;
                is_end = count == 0;
                room = (count * 2).clamp(*READ_BYTES.start(), *READ_BYTES.end());
            }
            // Limits the wait for a client that does not read.
            () = until(ending), if ending.is_some() => {
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

async fn until(instant: Option<tokio::time::Instant>) {
    if let Some(instant) = instant {
        tokio::time::sleep_until(instant).await;
    }
}

/// Reads at most `room` bytes to the end of the buffer.
///
/// # Cancellation
/// Safe: nothing is lost.
pub(crate) async fn read(
    reader: &mut (dyn AsyncRead + Send + Unpin),
    buffer: &mut Vec<u8>,
    room: usize,
) -> io::Result<usize> {
    let end = buffer.len();
    poll_fn(|cx| {
        buffer.resize(end + room, 0);
        let mut space = ReadBuf::new(&mut buffer[end..]);
        let poll = Pin::new(&mut *reader).poll_read(cx, &mut space);
        let count = space.filled().len();
        buffer.truncate(end + count);
        poll.map_ok(|()| count)
    })
    .await
}

/// The result of a write.
pub(crate) struct WriteResult {
    pub(crate) count: usize,
    /// The writer was flushed.
    is_flushed: bool,
}

/// Writes some of the bytes, and flushes the writer when all are written.
///
/// # Cancellation
/// Safe: nothing was written.
pub(crate) async fn write(
    writer: &mut (dyn AsyncWrite + Send + Unpin),
    bytes: &[u8],
) -> io::Result<WriteResult> {
    poll_fn(|cx| {
        let mut count = 0;
        if !bytes.is_empty() {
            count = ready!(Pin::new(&mut *writer).poll_write(cx, bytes))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        if count < bytes.len() {
            return Poll::Ready(Ok(WriteResult { count, is_flushed: false }));
        }
        match Pin::new(&mut *writer).poll_flush(cx) {
            Poll::Ready(flushed) => Poll::Ready(flushed.map(|()| WriteResult { count, is_flushed: true })),
            Poll::Pending if count > 0 => Poll::Ready(Ok(WriteResult { count, is_flushed: false })),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The buffer that is being written.
#[derive(Default)]
struct WriteBuffer {
    bytes: Vec<u8>,
    written: usize,
}

impl WriteBuffer {
    fn refill(&mut self, outlet: &Outlet) {
        if self.bytes.is_empty() {
            outlet.take(&mut self.bytes);
        }
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn advance(&mut self, count: usize, outlet: &Outlet) {
        self.written += count;
        if self.written == self.bytes.len() {
            self.written = 0;
            // Keeps a large capacity while messages are large, and shrinks at the first small one.
            if self.bytes.len() < self.bytes.capacity() / 4 {
                self.bytes.shrink_to(KEPT_CAPACITY);
            }
            self.bytes.clear();
            outlet.give_back(&mut self.bytes);
        }
    }
}

type TaskResult = Result<(tokio::task::Id, TaskOutput), tokio::task::JoinError>;

/// The output of a spawned call or batch.
enum TaskOutput {
    Reply(Reply),
    /// The responses to a batch.
    Batch(Vec<(Id, Reply)>, Vec<ErrorObject>),
}

/// A spawned call or batch.
struct RunningTask {
    /// `None` for a batch.
    id: Option<Id>,
    dialect: Dialect,
    context: Option<Context>,
    abort: AbortHandle,
}

impl RunningTask {
    /// Sets the context to cancelled, and aborts the task.
    fn cancel(&self) {
        if let Some(context) = &self.context {
            context.cancel();
        }
        self.abort.abort();
    }
}

/// The result of processing the lines that were read.
enum Progress {
    AllLines,
    /// Lines are left, because the client has to read first.
    OutputFull,
    /// The connection must be closed.
    Closed,
}

/// The result of negotiation for a request.
enum Admission {
    /// The request has to be routed.
    Exchange(Exchange),
    /// The reply is already known.
    Reply(Dialect, Reply),
}

struct Driver<'a> {
    core: &'a Arc<Core>,
    negotiation: StdioServer,
    connection: Arc<Connection>,
    client: Option<Arc<Client>>,
    outlet: Arc<Outlet>,
    runs: JoinSet<TaskOutput>,
    running: HashMap<tokio::task::Id, RunningTask>,
    subscriptions: Subscriptions,
    memory: Option<Arc<Budget>>,
    /// The memory of client info and capabilities.
    client_memory: Option<Share>,
    now: Instant,
}

impl<'a> Driver<'a> {
    fn new(core: &'a Arc<Core>, memory: Option<Arc<Budget>>) -> Self {
        let versions = &core.registry.snapshot().identity.versions;
        let connection = Connection::new(core.limits.clone(), DuplicateIds::Unnamed, memory.as_ref());
        Self {
            core,
            negotiation: StdioServer::new(versions),
            connection: Arc::new(connection),
            client: None,
            outlet: Arc::new(Outlet::new(Framing::Lines, MAX_UNWRITTEN_BYTES, memory.clone())),
            runs: JoinSet::new(),
            running: HashMap::new(),
            subscriptions: Subscriptions::default(),
            memory,
            client_memory: None,
            now: Instant::now(),
        }
    }

    /// Returns true if the output buffer has room.
    fn has_room(&self) -> bool {
        self.outlet.len() < MAX_UNWRITTEN_BYTES
    }

    /// Processes complete lines while the output buffer has room.
    fn lines(&mut self, lines: &mut Lines) -> Progress {
        while self.has_room() {
            let goes_on = match lines.poll_line() {
                None => return Progress::AllLines,
                Some(Line::Whole(line)) => self.whole_line(line),
                Some(Line::TooLong(error)) => self.unreadable(&error),
                Some(Line::Endless) => false,
            };
            if !goes_on {
                return Progress::Closed;
            }
        }
        Progress::OutputFull
    }

    /// Handles the end of input: ends subscription streams, and returns the deadline of the calls in flight.
    fn end(&mut self) -> tokio::time::Instant {
        self.end_subscriptions();
        tokio::time::Instant::now() + self.core.grace
    }

    fn whole_line(&mut self, line: &[u8]) -> bool {
        match parse_bytes(line, &self.core.limits) {
            Ok(Incoming::Message(message)) => self.message(&message),
            Ok(Incoming::Batch(batch)) => self.batch(&batch),
            Err(error) => return self.unreadable(&error),
        }
        true
    }

    fn unreadable(&mut self, error: &DecodeError) -> bool {
        tracing::debug!(%error, "the client sent a line that is not a JSON-RPC message");
        let arrival = self.connection.lock().peer.handle_unreadable(error);
        if let Arrival::BrokenResponse(call) = arrival {
            self.connection.settle_broken(call);
            return true;
        }
        let goes_on = self.negotiation.classify_unreadable(error) != ServerVerdict::Close;
        self.transmit();
        goes_on
    }

    fn message(&mut self, message: &Message<'_>) {
        let arrival = self.connection.lock().peer.handle_message(message, self.now);
        match (arrival, message) {
            (Arrival::Request, Message::Request(request)) => match self.exchange(message, request) {
                Admission::Exchange(exchange) => {
                    let dialect = exchange.dialect;
                    match self.core.route(request, exchange) {
                        Route::Reply(reply) => self.answer(&request.id, dialect, &reply),
                        Route::Run(run) => self.run(request, dialect, run),
                        Route::Listen(filter) => self.listen(&request.id, dialect, filter),
                    }
                }
                Admission::Reply(dialect, reply) => self.answer(&request.id, dialect, &reply),
            },
            (Arrival::Response(call), Message::Response(response)) => self.connection.settle(call, response),
            (Arrival::Cancelled(id), _) => self.cancel(&id),
            (Arrival::Ignored(Ignored::Refused), _) => self.transmit(),
            _ => {}
        }
    }

    /// Negotiates a request: returns its exchange, or the reply if it needs no routing.
    fn exchange(&mut self, message: &Message<'_>, request: &Request<'_>) -> Admission {
        // Before `classify` marks the connection as initialized, so that the client can retry.
        if request.method == Method::Initialize
            && let Err(reply) = self.take_client_memory(request)
        {
            return Admission::Reply(self.dialect(), reply);
        }
        let (dialect, meta) = match self.negotiation.classify(message) {
            ServerVerdict::Modern(dialect, meta) => {
                let outlet = Arc::clone(&self.outlet);
                return Admission::Exchange(Exchange {
                    dialect,
                    meta: Some(meta),
                    legacy: None,
                    outlet,
                    principal: Principal::default(),
                });
            }
            ServerVerdict::Legacy(dialect) => {
                // A legacy request with an invalid `_meta` is still accepted.
                (dialect, request.params.meta().ok().flatten().map(Arc::new))
            }
            ServerVerdict::Initialize(dialect, params) => {
                let (reply, client) = self.core.initialize(dialect, *params);
                self.client = Some(Arc::new(client));
                return Admission::Reply(dialect, reply);
            }
            ServerVerdict::Ping => return Admission::Reply(self.dialect(), Reply::Empty),
            ServerVerdict::Refuse(error) | ServerVerdict::RefuseUnnamed(error) => {
                return Admission::Reply(self.dialect(), Reply::Error(error));
            }
            _ => {
                let error =
                    ErrorObject::new(mcp_protocol::errors::ErrorCode::InvalidRequest, "not a request");
                return Admission::Reply(self.dialect(), Reply::Error(error));
            }
        };
        let legacy = Some(Legacy {
            connection: Arc::clone(&self.connection),
            client: self.client.clone(),
            log_level: self.connection.lock().log_level.clone(),
        });
        let outlet = Arc::clone(&self.outlet);
        Admission::Exchange(Exchange { dialect, meta, legacy, outlet, principal: Principal::default() })
    }

    /// Charges the memory of client info and capabilities, or returns the error.
    fn take_client_memory(&mut self, request: &Request<'_>) -> Result<(), Reply> {
        let bytes = Client::memory_of(request).map_err(Reply::Error)?;
        if let Some(memory) = &self.memory {
            self.client_memory = Some(memory.take(bytes).ok_or(Reply::Overloaded(NO_CLIENT_MEMORY))?);
        }
        Ok(())
    }

    /// Returns the dialect for messages that do not belong to a request.
    fn dialect(&self) -> Dialect {
        self.negotiation.negotiated().unwrap_or(Dialect::V2026_07_28)
    }

    fn run(&mut self, request: &Request<'_>, dialect: Dialect, mut run: Box<Run>) {
        let id = &request.id;
        // The no-op waker is safe because a pending call is polled again when it is spawned.
        match Pin::new(&mut run).poll(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(reply) => self.answer(id, dialect, &reply),
            Poll::Pending => {
                if let Some(memory) = &self.memory {
                    run.hold(memory.overdraw(request.params.text().len()));
                }
                let context = run.context.clone();
                let abort = self.runs.spawn(async move { TaskOutput::Reply(run.await) });
                let running = RunningTask { id: Some(id.clone()), dialect, context, abort };
                self.running.insert(running.abort.id(), running);
            }
        }
    }

    fn answer(&self, id: &Id, dialect: Dialect, reply: &Reply) {
        if self.connection.lock().peer.respond(id) {
            let meta = &self.core.meta;
            // Fails if the connection is closed.
            let _ = self.outlet.send(|out| reply.write(out, id, dialect, meta));
        }
    }

    fn answer_running(&self, id: Option<&Id>, dialect: Dialect, reply: &Reply) {
        if let Some(id) = id {
            self.answer(id, dialect, reply);
        }
    }

    fn ended(&mut self, ended: TaskResult) {
        let task = match &ended {
            Ok((task, _)) => *task,
            Err(error) => error.id(),
        };
        let Some(RunningTask { id, dialect, .. }) = self.running.remove(&task) else { return };
        match ended {
            Ok((_, TaskOutput::Reply(reply))) => self.answer_running(id.as_ref(), dialect, &reply),
            Ok((_, TaskOutput::Batch(replies, faults))) => self.answer_batch(dialect, &replies, &faults),
            Err(error) if error.is_panic() => self.answer_running(id.as_ref(), dialect, &panicked()),
            // Cancelled: frees the id.
            Err(_) => {
                if let Some(id) = &id {
                    self.connection.lock().peer.respond(id);
                }
            }
        }
    }

    fn cancel(&mut self, id: &Id) {
        if self.subscriptions.remove(id) {
            self.connection.lock().peer.respond(id);
            return;
        }
        for running in self.running.values().filter(|running| running.id.as_ref() == Some(id)) {
            running.cancel();
        }
    }

    fn cancel_all(&mut self) {
        for running in self.running.values() {
            running.cancel();
        }
    }

    /// Handles a batch: its requests run one after the other and are answered by one array.
    fn batch(&mut self, batch: &Batch<'_>) {
        let dialect = match self.negotiation.classify_batch(batch) {
            ServerVerdict::Legacy(dialect) => dialect,
            ServerVerdict::RefuseUnnamed(error) => {
                let dialect = self.dialect();
                let _ = self.outlet.send(|out| error_response(out, None, dialect, &error));
                return;
            }
            _ => return,
        };
        let mut routes = Vec::new();
        let mut faults = Vec::new();
        for message in batch.messages() {
            match message {
                Ok(Message::Request(request)) => {
                    let message = Message::Request(request.clone());
                    if self.connection.lock().peer.handle_message(&message, self.now) != Arrival::Request {
                        continue;
                    }
                    let route = if request.method == Method::Initialize {
                        let code = mcp_protocol::errors::ErrorCode::InvalidRequest;
                        Route::Reply(Reply::Error(ErrorObject::new(
                            code,
                            "`initialize` must not be part of a batch",
                        )))
                    } else {
                        match self.exchange(&message, &request) {
                            Admission::Exchange(exchange) => self.core.route(&request, exchange),
                            Admission::Reply(_, reply) => Route::Reply(reply),
                        }
                    };
                    routes.push((request.id, route));
                }
                Ok(other) => self.message(&other),
                Err(error) => faults.push(error.to_error_object()),
            }
        }
        self.transmit();
        if routes.is_empty() && faults.is_empty() {
            return;
        }
        let abort = self.runs.spawn(async move {
            let mut replies = Vec::new();
            for (id, route) in routes {
                let reply = match route {
                    Route::Reply(reply) => reply,
                    Route::Run(run) => run.await,
                    Route::Listen(_) => Reply::Empty,
                };
                replies.push((id, reply));
            }
            TaskOutput::Batch(replies, faults)
        });
        let running = RunningTask { id: None, dialect, context: None, abort };
        self.running.insert(running.abort.id(), running);
    }

    fn answer_batch(&self, dialect: Dialect, replies: &[(Id, Reply)], faults: &[ErrorObject]) {
        let wanted: Vec<_> =
            replies.iter().filter(|(id, _)| self.connection.lock().peer.respond(id)).collect();
        if wanted.is_empty() && faults.is_empty() {
            return;
        }
        let meta = &self.core.meta;
        let _ = self.outlet.send(|out| {
            out.push(b'[');
            for (id, reply) in &wanted {
                reply.write(out, id, dialect, meta)?;
                out.push(b',');
            }
            for error in faults {
                error_response(out, None, dialect, error)?;
                out.push(b',');
            }
            if out.last() == Some(&b',') {
                out.pop();
            }
            out.push(b']');
            Ok(())
        });
    }

    fn transmit(&self) {
        let dialect = self.dialect();
        Connection::transmit(&mut self.connection.lock(), &self.outlet, dialect);
    }

    fn changed(&mut self, change: Result<Change, RecvError>) {
        match change {
            Ok(change) => self.tell(&change),
            // Changes were lost, so everything may have changed.
            Err(RecvError::Lagged(_)) => {
                let uris = self.connection.uris().into_iter().chain(self.subscriptions.uris());
                for change in changes::everything(uris) {
                    self.tell(&change);
                }
            }
            Err(RecvError::Closed) => {}
        }
    }
}
