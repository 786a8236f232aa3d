//! The transport of a connection over HTTP: one server behind a URL, its sessions, and the headers of its tools.

use std::sync::{Arc, Mutex, MutexGuard};

use mcp_protocol::ProtocolVersion;
use mcp_protocol::lists::SkippedItem;
use mcp_protocol::tools::Tool;

use super::endpoint::Endpoint;
use super::events::SseMessage;
use super::exchange::Exchange;
use super::listen::listen;
use super::lock;
use super::negotiate::SessionStart;
use super::reconnect::Reconnects;
use super::renewal::Renewals;
use super::session::{OpenSession, Sessions};
use super::target::HttpTarget;
use super::tool_headers::ToolHeaders;
use crate::config::offer::Offer;
use crate::connection::inbound::Inbound;
use crate::connection::transport::{Exchanges, OutgoingRequest, SubscriptionStream, TransportFuture};
use crate::connection::{Connection, now};
use crate::error::Result;

/// The transport of a connection over HTTP.
#[derive(Debug)]
pub(crate) struct HttpTransport {
    pub(super) endpoint: Endpoint,
    pub(super) sessions: Sessions,
    pub(super) renewals: Renewals,
    pub(super) tool_headers: ToolHeaders,
    /// Limits how often streams are reopened.
    pub(super) reconnects: Reconnects,
    inbound: Mutex<Inbound>,
    /// The client info and capabilities, which are sent again to open a new session.
    pub(super) offer: Offer,
    pub(super) name: String,
}

impl HttpTransport {
    pub(crate) fn new(
        target: Arc<HttpTarget>,
        mut offer: Offer,
        name: String,
        version: &ProtocolVersion,
        start: SessionStart,
        inbound: Inbound,
    ) -> Self {
        let (is_http_sse, first) = match start {
            SessionStart::Streamable(id) => (false, OpenSession::streamable(id, 0)),
            SessionStart::HttpSse(opened) => (true, OpenSession::http_sse(opened, 0)),
        };
        // A new session must use the same version: the requests of this connection are serialized for it.
        offer.versions = vec![version.clone()];
        Self {
            endpoint: Endpoint::new(target, version, is_http_sse),
            sessions: Sessions::new(first),
            renewals: Renewals::default(),
            tool_headers: ToolHeaders::default(),
            reconnects: Reconnects::default(),
            inbound: Mutex::new(inbound),
            offer,
            name,
        }
    }

    pub(super) fn inbound(&self) -> MutexGuard<'_, Inbound> {
        lock(&self.inbound)
    }

    /// Handles a message that arrived on a stream that belongs to no request of a caller.
    pub(super) fn receive(&self, connection: &Connection, message: SseMessage<'_>) {
        match message {
            SseMessage::Message(message) => self.inbound().handle_line(connection, message, now()),
            SseMessage::TooLong(error) => self.inbound().handle_too_long(connection, &error),
        }
    }
}

impl Exchanges for HttpTransport {
    fn begin(self: Arc<Self>, request: OutgoingRequest) -> TransportFuture<'static, Result<()>> {
        Box::pin(Exchange::new(self, request).run())
    }

    fn keep_listening(self: Arc<Self>, stream: SubscriptionStream) -> TransportFuture<'static, ()> {
        Box::pin(listen(self, stream))
    }

    fn needs_tools(&self) -> bool {
        self.endpoint.is_modern && !self.tool_headers.is_known()
    }

    fn tools_listed(&self, tools: &mut Vec<Tool>) -> Vec<SkippedItem> {
        if self.endpoint.is_modern { self.tool_headers.learn(tools) } else { Vec::new() }
    }

    fn tools_unavailable(&self) {
        self.tool_headers.give_up();
    }

    fn tools_changed(&self) {
        self.tool_headers.forget();
    }

    fn is_failing(&self) -> bool {
        self.reconnects.is_failing()
    }
}
