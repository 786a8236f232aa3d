//! The loop between one client and the machines, over any pair of byte streams: one message a line.
//!
//! A call is polled once where it arrives. Most are done then, and their responses leave in one write with
//! those of the other lines that were read; only a call that waits becomes a spawned future.

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
use crate::connection::{Client, Connection, error_response};
use crate::context::{Context, Exchange, Legacy, Principal};
use crate::outlet::{Framing, Outlet};
use crate::registry::Change;
use crate::reply::Reply;
use crate::router::{Core, Route};
use crate::run::{Run, panicked};
use changes::{Follower, Subscriptions};

/// How much is read at once: little while little comes, for the room is cleared before each read.
const READ: std::ops::RangeInclusive<usize> = (4 << 10)..=(64 << 10);
/// What may wait to be written before nothing more is read.
const WAITING: usize = 1 << 20;
/// How long the last words may take after running calls were cancelled.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The error message for an `initialize` that exceeds the memory limit.
const NO_CLIENT_MEMORY: &str = "memory limit for clients reached; retry later";
/// What a buffer keeps once it is empty.
const KEPT: usize = 64 << 10;

/// Serves one client until it closes its end. What is held for the client is taken from `memory`, if it is one of many.
///
/// Compiled once, here, whatever the streams are.
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
    let mut writing = Writing::default();
    // Once nothing more is read: when calls that still run are cancelled, and then when it is over.
    let mut ending: Option<tokio::time::Instant> = None;
    let mut cancelled = false;
    // Nothing more comes: what was read is still to be taken in.
    let mut is_end = false;
    let mut room = *READ.start();
    // A writer of the user's own may hold back what it was given.
    let mut is_flushed = true;
    loop {
        if ending.is_none() {
            match driver.lines(&mut lines) {
                Taken::All if is_end => {
                    if !lines.rest().is_empty() {
                        driver.whole_line(lines.rest());
                    }
                    ending = Some(driver.end());
                }
                Taken::NoMore => ending = Some(driver.end()),
                Taken::All | Taken::AsMuchAsFits => {}
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
            // Everything here is cancel-safe: what was not taken is still there in the next round.
            written = write(writer, writing.rest()), if !writing.is_empty() || !is_flushed => match written {
                Ok(written) => {
                    is_flushed = written.is_flushed;
                    writing.advance(written.count, &driver.outlet);
                }
                // Nobody listens any more. There is nobody to tell.
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
                room = (count * 2).clamp(*READ.start(), *READ.end());
            }
            // A client that does not read its last words is not waited for.
            () = until(ending), if ending.is_some() => {
                if cancelled {
                    break;
                }
                driver.cancel_all();
                cancelled = true;
                ending = Some(tokio::time::Instant::now() + LAST_WORDS);
            }
        }
    }
    driver.connection.close();
    driver.outlet.close();
    // A function that blocks its thread cannot be stopped, and is not waited for.
    let _ = tokio::time::timeout(LAST_WORDS, driver.runs.shutdown()).await;
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

/// What came of writing.
pub(crate) struct Written {
    pub(crate) count: usize,
    /// The writer holds nothing back.
    is_flushed: bool,
}

/// Writes some of the bytes, and when it was all of them, has the writer pass on what it holds back.
///
/// # Cancellation
/// Safe: nothing was written.
pub(crate) async fn write(writer: &mut (dyn AsyncWrite + Send + Unpin), bytes: &[u8]) -> io::Result<Written> {
    poll_fn(|cx| {
        let mut count = 0;
        if !bytes.is_empty() {
            count = ready!(Pin::new(&mut *writer).poll_write(cx, bytes))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        if count < bytes.len() {
            return Poll::Ready(Ok(Written { count, is_flushed: false }));
        }
        match Pin::new(&mut *writer).poll_flush(cx) {
            Poll::Ready(flushed) => Poll::Ready(flushed.map(|()| Written { count, is_flushed: true })),
            Poll::Pending if count > 0 => Poll::Ready(Ok(Written { count, is_flushed: false })),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// What is being written.
#[derive(Default)]
struct Writing {
    bytes: Vec<u8>,
    written: usize,
}

impl Writing {
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
            // Kept while large messages keep coming, let go at the first small one.
            if self.bytes.len() < self.bytes.capacity() / 4 {
                self.bytes.shrink_to(KEPT);
            }
            self.bytes.clear();
            outlet.give_back(&mut self.bytes);
        }
    }
}

type Ended = Result<(tokio::task::Id, Done), tokio::task::JoinError>;

/// What a spawned future ends with.
enum Done {
    Reply(Reply),
    /// The responses to an array, as an array.
    Batch(Vec<(Id, Reply)>, Vec<ErrorObject>),
}

/// A request whose future was spawned.
struct Running {
    /// An array has none.
    id: Option<Id>,
    dialect: Dialect,
    context: Option<Context>,
    abort: AbortHandle,
}

impl Running {
    /// Tells what the function has started elsewhere, and drops its future.
    fn cancel(&self) {
        if let Some(context) = &self.context {
            context.cancel();
        }
        self.abort.abort();
    }
}

/// How much of what was read was taken in.
enum Taken {
    All,
    /// Not all: the client has to read first.
    AsMuchAsFits,
    /// And nothing more may be.
    NoMore,
}

/// What negotiation makes of a request.
enum Asked {
    /// It is to be served.
    Exchange(Exchange),
    /// It needs no more than this.
    Answered(Dialect, Reply),
}

struct Driver<'a> {
    core: &'a Arc<Core>,
    negotiation: StdioServer,
    connection: Arc<Connection>,
    client: Option<Arc<Client>>,
    outlet: Arc<Outlet>,
    runs: JoinSet<Done>,
    running: HashMap<tokio::task::Id, Running>,
    subscriptions: Subscriptions,
    memory: Option<Arc<Budget>>,
    /// The memory of what the client said of itself.
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
            outlet: Arc::new(Outlet::new(Framing::Lines, WAITING, memory.clone())),
            runs: JoinSet::new(),
            running: HashMap::new(),
            subscriptions: Subscriptions::default(),
            memory,
            client_memory: None,
            now: Instant::now(),
        }
    }

    /// True if more may be said to the client, who has not read everything yet.
    fn has_room(&self) -> bool {
        self.outlet.len() < WAITING
    }

    /// Takes in the lines that are complete, for as long as their answers have room.
    fn lines(&mut self, lines: &mut Lines) -> Taken {
        while self.has_room() {
            let goes_on = match lines.poll_line() {
                None => return Taken::All,
                Some(Line::Whole(line)) => self.whole_line(line),
                Some(Line::TooLong(error)) => self.unreadable(&error),
                Some(Line::Endless) => false,
            };
            if !goes_on {
                return Taken::NoMore;
            }
        }
        Taken::AsMuchAsFits
    }

    /// Nothing more is read: streams of changes end, and calls that run get their grace.
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
                Asked::Exchange(exchange) => {
                    let dialect = exchange.dialect;
                    match self.core.route(request, exchange) {
                        Route::Reply(reply) => self.answer(&request.id, dialect, &reply),
                        Route::Run(run) => self.run(request, dialect, run),
                        Route::Listen(filter) => self.listen(&request.id, dialect, filter),
                    }
                }
                Asked::Answered(dialect, reply) => self.answer(&request.id, dialect, &reply),
            },
            (Arrival::Response(call), Message::Response(response)) => self.connection.settle(call, response),
            (Arrival::Cancelled(id), _) => self.cancel(&id),
            (Arrival::Ignored(Ignored::Refused), _) => self.transmit(),
            _ => {}
        }
    }

    /// Who asks, or the reply to a request that needs no more.
    fn exchange(&mut self, message: &Message<'_>, request: &Request<'_>) -> Asked {
        // Before it counts as initialized, so that it can try again.
        if request.method == Method::Initialize
            && let Err(reply) = self.take_client_memory(request)
        {
            return Asked::Answered(self.dialect(), reply);
        }
        let (dialect, meta) = match self.negotiation.classify(message) {
            ServerVerdict::Modern(dialect, meta) => {
                let outlet = Arc::clone(&self.outlet);
                return Asked::Exchange(Exchange {
                    dialect,
                    meta: Some(meta),
                    legacy: None,
                    outlet,
                    principal: Principal::default(),
                });
            }
            ServerVerdict::Legacy(dialect) => {
                // An odd `_meta` is no reason to refuse a legacy request.
                (dialect, request.params.meta().ok().flatten().map(Arc::new))
            }
            ServerVerdict::Initialize(dialect, params) => {
                let (reply, client) = self.core.initialize(dialect, *params);
                self.client = Some(Arc::new(client));
                return Asked::Answered(dialect, reply);
            }
            ServerVerdict::Ping => return Asked::Answered(self.dialect(), Reply::Empty),
            ServerVerdict::Refuse(error) | ServerVerdict::RefuseUnnamed(error) => {
                return Asked::Answered(self.dialect(), Reply::Error(error));
            }
            _ => {
                let error =
                    ErrorObject::new(mcp_protocol::errors::ErrorCode::InvalidRequest, "not a request");
                return Asked::Answered(self.dialect(), Reply::Error(error));
            }
        };
        let legacy = Some(Legacy {
            connection: Arc::clone(&self.connection),
            client: self.client.clone(),
            log_level: self.connection.lock().log_level.clone(),
        });
        let outlet = Arc::clone(&self.outlet);
        Asked::Exchange(Exchange { dialect, meta, legacy, outlet, principal: Principal::default() })
    }

    /// Takes the memory of what a client says of itself, or says why it is refused.
    fn take_client_memory(&mut self, request: &Request<'_>) -> Result<(), Reply> {
        let bytes = Client::memory_of(request).map_err(Reply::Error)?;
        if let Some(memory) = &self.memory {
            self.client_memory = Some(memory.take(bytes).ok_or(Reply::Overloaded(NO_CLIENT_MEMORY))?);
        }
        Ok(())
    }

    /// The dialect for what belongs to no request.
    fn dialect(&self) -> Dialect {
        self.negotiation.negotiated().unwrap_or(Dialect::V2026_07_28)
    }

    fn run(&mut self, request: &Request<'_>, dialect: Dialect, mut run: Box<Run>) {
        let id = &request.id;
        // Whoever is woken by this is polled again when it is spawned.
        match Pin::new(&mut run).poll(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(reply) => self.answer(id, dialect, &reply),
            Poll::Pending => {
                if let Some(memory) = &self.memory {
                    run.hold(memory.overdraw(request.params.text().len()));
                }
                let context = run.context.clone();
                let abort = self.runs.spawn(async move { Done::Reply(run.await) });
                let running = Running { id: Some(id.clone()), dialect, context, abort };
                self.running.insert(running.abort.id(), running);
            }
        }
    }

    fn answer(&self, id: &Id, dialect: Dialect, reply: &Reply) {
        if self.connection.lock().peer.respond(id) {
            let meta = &self.core.meta;
            // The link may have ended; then nobody waits.
            let _ = self.outlet.send(|out| reply.write(out, id, dialect, meta));
        }
    }

    fn answer_running(&self, id: Option<&Id>, dialect: Dialect, reply: &Reply) {
        if let Some(id) = id {
            self.answer(id, dialect, reply);
        }
    }

    fn ended(&mut self, ended: Ended) {
        let task = match &ended {
            Ok((task, _)) => *task,
            Err(error) => error.id(),
        };
        let Some(Running { id, dialect, .. }) = self.running.remove(&task) else { return };
        match ended {
            Ok((_, Done::Reply(reply))) => self.answer_running(id.as_ref(), dialect, &reply),
            Ok((_, Done::Batch(replies, faults))) => self.answer_batch(dialect, &replies, &faults),
            Err(error) if error.is_panic() => self.answer_running(id.as_ref(), dialect, &panicked()),
            // Cancelled: its id is free again.
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

    /// An array of messages: requests run one after the other, and one array answers them.
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
                            Asked::Exchange(exchange) => self.core.route(&request, exchange),
                            Asked::Answered(_, reply) => Route::Reply(reply),
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
            Done::Batch(replies, faults)
        });
        let running = Running { id: None, dialect, context: None, abort };
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
            // Too many to tell each: tell that everything may have changed.
            Err(RecvError::Lagged(_)) => {
                let followed = self.connection.uris().into_iter().chain(self.subscriptions.followed());
                for change in changes::everything(followed) {
                    self.tell(&change);
                }
            }
            Err(RecvError::Closed) => {}
        }
    }
}
