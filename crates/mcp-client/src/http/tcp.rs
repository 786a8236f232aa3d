//! One TCP connection. It detects a server that does not speak the expected protocol, and a connection that the server
//! closed while it was idle.

use std::cell::Cell;
use std::io::{self, Read as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use mcp_protocol::codec::line::sample;
use socket2::SockRef;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;

/// The maximum number of first bytes from the server that are checked, and quoted if they belong to another protocol.
const PEEK_BYTES: usize = 64;
/// The buffer size of a read that bypasses the runtime.
const DIRECT_READ_BYTES: usize = 1 << 10;
/// The types of the TLS record that a server may send first: alert and handshake.
const TLS_RECORD_TYPES: [u8; 2] = [0x15, 0x16];

/// A TCP connection to a server or proxy.
pub(super) struct TcpConnection {
    io: TokioIo<TcpStream>,
    /// True if this is a connection to a proxy that needs absolute URLs in requests.
    is_proxied: bool,
    is_tls: bool,
    /// True once the first bytes from the server were checked.
    is_checked: bool,
    /// True while a response is expected: something was written after the last read.
    is_awaiting: bool,
    /// The poll in which the socket was read last. Reading it again in the same poll finds nothing new.
    read_in: u64,
}

thread_local! {
    /// The number of the current poll of a connection task. Different threads count in different ranges.
    static POLL: Cell<u64> = {
        static THREADS: AtomicU64 = AtomicU64::new(1);
        Cell::new(THREADS.fetch_add(1, Ordering::Relaxed) << 40)
    };
}

/// The task of a connection, whose polls are counted.
pub(super) struct CountedPolls<F>(pub(super) Pin<Box<F>>);

impl<F: Future> Future for CountedPolls<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        POLL.set(POLL.get().wrapping_add(1));
        self.0.as_mut().poll(cx)
    }
}

impl TcpConnection {
    pub(super) fn new(io: TokioIo<TcpStream>, uri: &http::Uri) -> Self {
        let is_tls = uri.scheme() == Some(&http::uri::Scheme::HTTPS);
        Self { io, is_proxied: false, is_tls, is_checked: false, is_awaiting: false, read_in: 0 }
    }

    /// Creates a connection to a proxy that forwards plain HTTP requests.
    pub(super) fn to_proxy(io: TokioIo<TcpStream>, uri: &http::Uri) -> Self {
        Self { is_proxied: true, ..Self::new(io, uri) }
    }

    /// Checks that the first bytes belong to the expected protocol, without consuming them.
    fn poll_check(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut room = [0; PEEK_BYTES];
        let mut buffer = ReadBuf::new(&mut room);
        ready!(self.io.inner().poll_peek(cx, &mut buffer))?;
        self.is_checked = true;
        let first = buffer.filled();
        Poll::Ready(match problem(first, self.is_tls) {
            Some(problem) => Err(io::Error::new(io::ErrorKind::InvalidData, problem)),
            None => Ok(()),
        })
    }

    /// Reads directly from the socket: the runtime may not have noticed yet that there is data, or that the connection
    /// was closed. Returns `None` if there is nothing to read.
    fn read_at_once(&self, buffer: &mut ReadBufCursor<'_>) -> Option<io::Result<()>> {
        let mut room = [0; DIRECT_READ_BYTES];
        let most = buffer.remaining().min(DIRECT_READ_BYTES);
        match (&*SockRef::from(self.io.inner())).read(&mut room[..most]) {
            Ok(count) => {
                buffer.put_slice(&room[..count]);
                Some(Ok(()))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                None
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// Returns the problem with the first bytes from a server, if they do not belong to the expected protocol (TLS or
/// HTTP).
fn problem(first: &[u8], is_tls: bool) -> Option<String> {
    let is_http = |bytes: &[u8]| bytes.iter().zip(b"HTTP/").all(|(byte, expected)| byte == expected);
    let is_tls_record = |bytes: &[u8]| bytes.first().is_some_and(|kind| TLS_RECORD_TYPES.contains(kind));
    let first_bytes = || sample(first, PEEK_BYTES - 1);
    match (is_tls, first) {
        (true, []) => Some(
            "the server closed the connection during the TLS handshake; check that this port uses https and not http"
                .to_owned(),
        ),
        (true, first) if is_tls_record(first) => None,
        (true, first) if is_http(first) => {
            Some("the server speaks http on this port, without TLS; use http:// in the URL".to_owned())
        }
        (true, _) => Some(format!("the server does not speak TLS; first bytes: \"{}\"", first_bytes())),
        (false, first) if is_http(first) => None,
        (false, first) if is_tls_record(first) => {
            Some("the server speaks TLS on this port; use https:// in the URL".to_owned())
        }
        (false, _) => Some(format!("the server does not speak HTTP; first bytes: \"{}\"", first_bytes())),
    }
}

impl Connection for TcpConnection {
    fn connected(&self) -> Connected {
        self.io.connected().proxy(self.is_proxied)
    }
}

impl Read for TcpConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_checked {
            ready!(self.poll_check(cx))?;
        }
        // hyper reads before it writes a request. If this read shows that the server has closed the idle connection,
        // hyper sends the request on another connection. Once a request is written, it is unknown whether the server
        // has read it.
        let poll = POLL.get();
        if !self.is_awaiting && self.read_in != poll {
            self.read_in = poll;
            if let Some(read) = self.read_at_once(&mut buffer) {
                return Poll::Ready(read);
            }
        }
        let read = Pin::new(&mut self.io).poll_read(cx, buffer);
        if read.is_ready() {
            (self.is_awaiting, self.read_in) = (false, poll);
        }
        read
    }
}

impl Write for TcpConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.is_awaiting = true;
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.is_awaiting = true;
        Pin::new(&mut self.io).poll_write_vectored(cx, pieces)
    }
}
