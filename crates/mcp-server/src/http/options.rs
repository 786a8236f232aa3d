//! How HTTP is served: who may connect, and every bound.

use std::time::Duration;

use super::Access;

/// How HTTP is served. Every bound has a default.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// Who may connect: names in `Host` and web origins in `Origin`. Default: loopback.
    pub access: Access,
    /// Bytes in the body of a request. Default: 4 MiB.
    pub body: usize,
    /// How long a body may take to arrive. Default: 30 s.
    pub body_time: Duration,
    /// Silence on a stream before a comment keeps it alive. Default: 15 s.
    pub keep_alive: Duration,
    /// How long a legacy session may be idle. Default: 5 minutes.
    pub session_idle: Duration,
    /// Legacy sessions at once. Default: 10,000. The idlest hundredth that nobody uses makes room for new ones; a
    /// session is in use while a request of it is being answered or a stream of it is read, whatever calls run in it.
    pub sessions: usize,
    /// Calls that wait for something at once, of all clients together. Default: 10,000; further calls get 503.
    pub calls: usize,
    /// Bytes of request bodies at once, of all clients together: those that are being read, and those of calls that
    /// run. Default: 128 MiB; further bodies get 503. A quarter is kept for bodies below 16 KiB.
    pub bodies: usize,
    /// Bytes that one legacy session or one stream of changes may hold: what the client said of itself, the URIs that
    /// it follows, and events that it has not read or may ask for again. Default: 4 MiB.
    pub session_memory: usize,
    /// Bytes that all of them may hold together. Default: 256 MiB. The idlest sessions make room for new ones.
    pub memory: usize,
    /// Streams of changes at once. Default: 1,000.
    pub streams: usize,
    /// Connections at once, if the server listens itself; one more is told to come back later. Default: 10,000.
    pub connections: usize,
    /// How long the headers of a request may take, if the server listens itself. Default: 10 s.
    pub header_time: Duration,
    /// How long a client may leave what it is sent unread, if the server listens itself. Default: 30 s.
    pub write_time: Duration,
    pub(super) sse_pair: bool,
    pub(super) beyond_loopback: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            access: Access::default(),
            body: 4 << 20,
            body_time: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            session_idle: Duration::from_secs(300),
            sessions: 10_000,
            calls: 10_000,
            bodies: 128 << 20,
            session_memory: 4 << 20,
            memory: 256 << 20,
            streams: 1_000,
            connections: 10_000,
            header_time: Duration::from_secs(10),
            write_time: Duration::from_secs(30),
            sse_pair: false,
            beyond_loopback: false,
        }
    }
}

macro_rules! setters {
    ($($(#[$attr:meta])* $name:ident : $type:ty),* $(,)?) => { $(
        $(#[$attr])*
        #[must_use]
        pub fn $name(mut self, value: $type) -> Self {
            self.$name = value;
            self
        }
    )* };
}

impl HttpOptions {
    setters! {
        /// Sets who may connect.
        access: Access,
        /// Sets the bytes in the body of a request.
        body: usize,
        /// Sets how long a body may take to arrive.
        body_time: Duration,
        /// Sets the silence on a stream before a comment keeps it alive.
        keep_alive: Duration,
        /// Sets how long a legacy session may be idle.
        session_idle: Duration,
        /// Sets how many legacy sessions there may be.
        sessions: usize,
        /// Sets how many calls may wait at once, of all clients together.
        calls: usize,
        /// Sets the bytes of request bodies at once, of all clients together.
        bodies: usize,
        /// Sets the bytes that one legacy session or stream of changes may hold.
        session_memory: usize,
        /// Sets the bytes that all legacy sessions and streams of changes may hold together.
        memory: usize,
        /// Sets how many streams of changes there may be.
        streams: usize,
        /// Sets how many connections there may be.
        connections: usize,
        /// Sets how long the headers of a request may take.
        header_time: Duration,
        /// Sets how long a client may leave what it is sent unread.
        write_time: Duration,
    }

    /// Serves the transport of 2024-11-05 beside `/mcp`, if the server listens itself: a stream of events at `/sse`
    /// and messages at `/messages`.
    #[must_use]
    pub fn with_sse_pair(mut self) -> Self {
        self.sse_pair = true;
        self
    }

    /// Lets the server listen on an address that others than this machine can reach, though nothing checks who they
    /// are: **each of them can call every tool**. The names that they use in `Host` have to be allowed by
    /// [`access`](Self::access) besides.
    #[must_use]
    pub fn beyond_loopback_without_authorization(mut self) -> Self {
        self.beyond_loopback = true;
        self
    }
}
