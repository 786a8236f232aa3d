//! Options of the HTTP transport: access, limits and timeouts.

use std::time::Duration;

use super::Access;
use crate::auth::ProtectedResource;

/// Options of the HTTP transport: access, limits and timeouts. Every option has a default.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The allowed `Host` names and web origins (`Origin`). Default: loopback.
    pub access: Access,
    /// The maximum size of a request body in bytes. Default: 4 MiB; larger bodies get 413.
    pub body: usize,
    /// The timeout for receiving a request body. When it elapses, the client gets 408. Default: 30 s.
    pub body_time: Duration,
    /// The interval of keep-alive comments on an idle SSE stream. Default: 15 s.
    pub keep_alive: Duration,
    /// The time after which a legacy session that is not in use is ended. Default: 5 minutes.
    pub session_idle: Duration,
    /// The maximum number of legacy sessions. Default: 10,000. At the limit, a new session evicts the least recently
    /// used 1 % of the sessions, but none that is in use. A session is in use while one of its requests is being
    /// answered or one of its streams is being read. A call in flight whose client has disconnected does not keep its
    /// session in use.
    pub sessions: usize,
    /// The maximum number of calls in flight, of all clients together. Default: 10,000; further calls get 503.
    pub calls: usize,
    /// The maximum total size of request bodies in bytes, of all clients together: bodies that are being received and
    /// bodies of calls in flight. Default: 128 MiB. Further bodies get 503. A quarter is reserved for bodies of
    /// at most 16 KiB.
    pub bodies: usize,
    /// The maximum memory of one session (legacy or HTTP+SSE) in bytes: client info and capabilities, subscribed URIs,
    /// and events that are unread or kept for resumption. Also the maximum size of the URIs of one subscription stream.
    /// Default: 4 MiB.
    pub session_memory: usize,
    /// The maximum memory of all sessions and subscription streams together, in bytes. Default: 256 MiB. At the limit,
    /// the least recently used sessions that are not in use are evicted.
    pub memory: usize,
    /// The maximum number of open subscription streams and HTTP+SSE sessions together. Default: 1,000; further streams
    /// and sessions get 503.
    pub streams: usize,
    /// The maximum number of connections of the built-in listener. Default: 10,000; further connections get 503.
    pub connections: usize,
    /// The timeout for receiving the headers of a request, for the built-in listener. Default: 10 s.
    pub header_time: Duration,
    /// The timeout for writing to a client that does not read, for the built-in listener. When it elapses, the
    /// connection is closed. Default: 30 s.
    pub write_time: Duration,
    pub(super) protected: Option<ProtectedResource>,
    pub(super) http_sse: bool,
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
            protected: None,
            http_sse: false,
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
        /// Sets the allowed `Host` names and web origins.
        access: Access,
        /// Sets the maximum size of a request body in bytes.
        body: usize,
        /// Sets the timeout for receiving a request body.
        body_time: Duration,
        /// Sets the interval of keep-alive comments on an idle SSE stream.
        keep_alive: Duration,
        /// Sets the time after which a legacy session that is not in use is ended.
        session_idle: Duration,
        /// Sets the maximum number of legacy sessions.
        sessions: usize,
        /// Sets the maximum number of calls in flight, of all clients together.
        calls: usize,
        /// Sets the maximum total size of request bodies in bytes, of all clients together.
        bodies: usize,
        /// Sets the maximum memory of one session in bytes; also the maximum size of the URIs of a subscription stream.
        session_memory: usize,
        /// Sets the maximum memory of all sessions and subscription streams together, in bytes.
        memory: usize,
        /// Sets the maximum number of open subscription streams and HTTP+SSE sessions together.
        streams: usize,
        /// Sets the maximum number of connections of the built-in listener.
        connections: usize,
        /// Sets the timeout for receiving the headers of a request, for the built-in listener.
        header_time: Duration,
        /// Sets the timeout for writing to a client that does not read, for the built-in listener.
        write_time: Duration,
    }

    /// Requires a valid token in every request: see [`auth`](crate::auth). The host of the resource is then allowed in
    /// `Host`, and the built-in listener accepts addresses that other machines can reach.
    #[doc(alias = "OAuth")]
    #[doc(alias = "authorization")]
    #[must_use]
    pub fn protect(mut self, resource: ProtectedResource) -> Self {
        if let Some(host) = resource.host() {
            self.access = self.access.host(host);
        }
        self.protected = Some(resource);
        self
    }

    /// Enables the HTTP+SSE transport (2024-11-05) in the built-in listener, in addition to Streamable HTTP at `/mcp`:
    /// the SSE stream at `/sse`, and an endpoint for messages at `/messages`.
    #[doc(alias = "SSE")]
    #[doc(alias = "HTTP+SSE")]
    #[must_use]
    pub fn with_http_sse(mut self) -> Self {
        self.http_sse = true;
        self
    }

    /// Allows the server to listen on an address that other machines can reach, without authorization: **anyone who can
    /// connect can call every tool**. The server still refuses requests whose `Host` header is not allowed by
    /// [`access`](Self::access).
    #[must_use]
    pub fn beyond_loopback_without_authorization(mut self) -> Self {
        self.beyond_loopback = true;
        self
    }
}
