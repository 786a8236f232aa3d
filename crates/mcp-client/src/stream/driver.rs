//! The loop between one server and the machines. It moves bytes, wakes those who wait, and has no opinion.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use mcp_protocol::codec::line::Lines;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::watch;

use crate::client::shutdown::Shutdown;
use crate::connection::alarm::{Alarm, until};
use crate::connection::handlers::Handlers;
use crate::connection::inbound::Inbound;
use crate::connection::{Connection, Writer, now};
use crate::error::{ConnectionEnd, EndCause};
use crate::stream::link::{Link, Owner};

/// How much is read at once: little while little comes.
const READ: std::ops::RangeInclusive<usize> = (4 << 10)..=(64 << 10);
/// How long the last words of a process that ended may take, if something else holds its pipe.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(200);
/// How long a server whose output ended may take to end.
const EXIT: Duration = Duration::from_millis(500);
/// How long what was queued may take to leave before the link is closed.
const FLUSH: Duration = Duration::from_millis(250);
/// What a buffer keeps once it is empty.
const KEPT: usize = 64 << 10;

/// Everything the loop needs.
pub(crate) struct Driver {
    pub(crate) connection: Arc<Connection>,
    pub(crate) link: Link,
    pub(crate) lines: Lines,
    pub(crate) handlers: Arc<Handlers>,
    /// Lines of the server that were held back until its era was known.
    pub(crate) held: Vec<Vec<u8>>,
    pub(crate) report: watch::Sender<Option<Shutdown>>,
}

impl Driver {
    /// Runs until the link ends, then ends what is behind it.
    pub(crate) async fn run(self) {
        let Self { connection, link, mut lines, handlers, held, report } = self;
        let Link { mut reader, writer, owner } = link;
        let mut inbound = Inbound::new(handlers, Some(Box::new(owner.clone())));
        for line in held {
            inbound.line(&connection, &line, now());
        }
        // Whoever waits is told even if this future is dropped or panics.
        let end = End(Arc::clone(&connection));
        let cause = serve(&connection, &mut *reader, writer, &mut lines, &owner, &mut inbound).await;
        let is_closed = cause == EndCause::Closed;
        if is_closed {
            connection.end(ConnectionEnd { cause, ..ConnectionEnd::default() });
        } else {
            connection.end(last_words(cause, &owner).await);
        }
        // From here on there may be another link.
        drop(end);
        // Handlers that still run are dropped; one that blocks its thread is not waited for.
        drop(inbound);
        // Its input has ended, by which a server learns that it is over; what it still says is read, so that it can.
        let drain = async {
            let mut rest = Vec::with_capacity(KEPT);
            while matches!(reader.read_buf(&mut rest).await, Ok(1..)) {
                rest.clear();
            }
            std::future::pending::<()>().await;
        };
        let shutdown = tokio::select! {
            shutdown = owner.end(is_closed) => shutdown,
            () = drain => Shutdown::default(),
        };
        connection.exited(shutdown.status);
        let _ = report.send(Some(shutdown));
    }
}

/// Ends a connection when it is dropped, if nothing else has.
struct End(Arc<Connection>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end_unfinished();
    }
}

/// What is known of a server whose link ended.
async fn last_words(cause: EndCause, owner: &Owner) -> ConnectionEnd {
    let status = owner.exits_within(EXIT).await;
    ConnectionEnd { cause, status, stderr: owner.stderr().await }
}

async fn serve(
    connection: &Arc<Connection>,
    reader: &mut (dyn AsyncRead + Send + Unpin),
    writer: Writer,
    lines: &mut Lines,
    owner: &Owner,
    inbound: &mut Inbound,
) -> EndCause {
    let mut writing: Vec<u8> = Vec::new();
    let mut written = 0;
    // A writer of the user's own may hold back what it was given.
    let mut is_flushed = true;
    // Here while there is something to write, otherwise where a caller finds it.
    let mut writer = Some(writer);
    let mut room = *READ.start();
    let mut alarm = Alarm::new();
    // Once the process has ended: how long its pipe is still read.
    let mut last: Option<tokio::time::Instant> = None;
    let mut closes: Option<tokio::time::Instant> = None;
    // What came while the era was found out.
    if let Some(cause) = inbound.lines(connection, lines, now()) {
        return cause;
    }
    loop {
        {
            let mut state = connection.lock();
            state.look();
            if writing.is_empty() {
                state.take_lines(connection.dialect(), &mut writing);
            }
            if writer.is_none() {
                (writer, is_flushed) = state.take_writer();
            }
            if writing.is_empty() && is_flushed {
                state.give_writer(writer.take());
            }
            if state.is_closing() && closes.is_none() {
                closes = Some(tokio::time::Instant::now() + FLUSH);
            }
            alarm.set(state.peer.poll_timeout().map(|(instant, _)| instant));
            state.rings(alarm.at);
        }
        if closes
            .is_some_and(|until| (writing.is_empty() && is_flushed) || tokio::time::Instant::now() >= until)
        {
            return EndCause::Closed;
        }
        // Everything here is cancel-safe: what was not taken is still there in the next round.
        tokio::select! {
            biased;
            () = alarm.rings() => {
                let mut state = connection.lock();
                state.peer.handle_timeout(now());
                state.settle_events();
            }
            result = write_some(&mut writer, &writing[written..]), if writer.is_some() => match result {
                Ok((count, flushed)) => {
                    is_flushed = flushed;
                    connection.lock().wrote(count);
                    written += count;
                    if written == writing.len() {
                        written = 0;
                        // Kept while large messages keep coming, let go at the first small one.
                        if writing.len() < writing.capacity() / 4 {
                            writing.shrink_to(KEPT);
                        }
                        writing.clear();
                    }
                }
                // A server that ended may have said why, and that is read first.
                Err(error) if last.is_none() => {
                    drain(connection, reader, lines, inbound).await;
                    return EndCause::Write(error.to_string());
                }
                Err(error) => return EndCause::Write(error.to_string()),
            },
            () = inbound.answered(connection), if inbound.is_asked() => {}
            () = poll_fn(|cx| if connection.lock().poll_changed(cx) { Poll::Ready(()) } else { Poll::Pending }) => {}
            read = read(reader, lines.space(), room) => match read {
                Ok(0) => {
                    inbound.rest(connection, lines, now());
                    return EndCause::Server;
                }
                Ok(count) => {
                    room = (count * 2).clamp(*READ.start(), *READ.end());
                    if let Some(cause) = inbound.lines(connection, lines, now()) {
                        return cause;
                    }
                }
                Err(error) => return EndCause::Read(error.to_string()),
            },
            _ = owner.exited(), if last.is_none() => {
                last = Some(tokio::time::Instant::now() + LAST_WORDS);
            }
            () = until(last), if last.is_some() => return EndCause::Server,
            () = until(closes), if closes.is_some() => return EndCause::Closed,
        }
    }
}

/// Reads what a server wrote before its input was closed, within a short time.
async fn drain(
    connection: &Connection,
    reader: &mut (dyn AsyncRead + Send + Unpin),
    lines: &mut Lines,
    inbound: &mut Inbound,
) {
    let until = tokio::time::Instant::now() + LAST_WORDS;
    while let Ok(Ok(1..)) = tokio::time::timeout_at(until, read(reader, lines.space(), *READ.end())).await {
        inbound.lines(connection, lines, now());
    }
    inbound.rest(connection, lines, now());
}

async fn write_some(writer: &mut Option<Writer>, bytes: &[u8]) -> io::Result<(usize, bool)> {
    match writer {
        Some(writer) => write(&mut **writer, bytes).await,
        None => std::future::pending().await,
    }
}

/// Reads at most so many bytes to the end of the buffer.
///
/// # Cancellation
/// Safe: nothing is lost.
pub(crate) async fn read(
    reader: &mut (dyn AsyncRead + Send + Unpin),
    buffer: &mut Vec<u8>,
    room: usize,
) -> io::Result<usize> {
    buffer.reserve(room);
    reader.read_buf(buffer).await
}

/// Writes some of the bytes, and when it was all of them, has the writer pass on what it holds back. Gives how many
/// were written, and whether nothing is held back.
///
/// # Cancellation
/// Safe: nothing was written.
pub(crate) async fn write(
    writer: &mut (dyn AsyncWrite + Send + Unpin),
    bytes: &[u8],
) -> io::Result<(usize, bool)> {
    poll_fn(|cx| {
        let mut count = 0;
        if !bytes.is_empty() {
            count = ready!(Pin::new(&mut *writer).poll_write(cx, bytes))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        if count < bytes.len() {
            return Poll::Ready(Ok((count, false)));
        }
        match Pin::new(&mut *writer).poll_flush(cx) {
            Poll::Ready(flushed) => Poll::Ready(flushed.map(|()| (count, true))),
            Poll::Pending if count > 0 => Poll::Ready(Ok((count, false))),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
