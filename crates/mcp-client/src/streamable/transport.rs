//! The transport of a connection over HTTP: one server behind a URL, its sessions, and the headers of its tools.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use mcp_protocol::ProtocolVersion;
use mcp_protocol::lists::SkippedItem;
use mcp_protocol::messages::Method;
use mcp_protocol::negotiation::Mode;
use mcp_protocol::safe_text::SafeText;
use mcp_protocol::tools::Tool;
use tokio::sync::watch;

use super::endpoint::Endpoint;
use super::events::SseMessage;
use super::exchange::Exchange;
use super::listen::listen;
use super::negotiate::{self, ProbeResult, SessionStart};
use super::reconnect::Reconnects;
use super::session::{OpenSession, RenewalOutcome, RenewalStep, Session, Sessions};
use super::target::HttpTarget;
use super::tool_headers::ToolHeaders;
use super::{http_sse, lock};
use crate::config::offer::Offer;
use crate::connection::inbound::Inbound;
use crate::connection::transport::{Exchanges, OutgoingRequest, SubscriptionStream, TransportFuture};
use crate::connection::{Connection, now};
use crate::error::{Error, Result};
use crate::http::request::HttpError;

/// The timeout for opening a new session.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The transport of a connection over HTTP.
#[derive(Debug)]
pub(crate) struct HttpTransport {
    pub(super) endpoint: Endpoint,
    pub(super) sessions: Sessions,
    pub(super) tool_headers: ToolHeaders,
    /// Limits how often streams are reopened.
    pub(super) reconnects: Reconnects,
    inbound: Mutex<Inbound>,
    /// The client info and capabilities, which are sent again to open a new session.
    offer: Offer,
    name: String,
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

    /// Replaces a session that was lost, and waits for the new one. All callers wait for the same renewal.
    ///
    /// # Cancellation
    /// Cancel safe: the renewal continues.
    pub(super) async fn renew(self: &Arc<Self>, lost: &Session, connection: &Arc<Connection>) -> Result<()> {
        let mut outcome = match self.begin_renewal(lost, connection) {
            RenewalStep::Renewed => return Ok(()),
            RenewalStep::Wait(outcome) => outcome,
            RenewalStep::TooMany(wait) => {
                let server = self.name.clone();
                return Err(Error::TooManyRestarts { server, wait, ended: Arc::default() });
            }
        };
        let closed = || HttpError::unsent("the connection was closed").into_lost(Method::Initialize);
        let outcome = outcome.wait_for(Option::is_some).await.map_err(|_| closed())?;
        match &*outcome {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Begins to replace a session that was lost, without waiting for it.
    pub(super) fn begin_renewal(
        self: &Arc<Self>,
        lost: &Session,
        connection: &Arc<Connection>,
    ) -> RenewalStep {
        self.sessions.renew(lost, |pause, outcome: watch::Sender<RenewalOutcome>| {
            let server = SafeText::name(&self.name);
            tracing::debug!(%server, "the server does not know the session; opening a new one");
            let (transport, connection) = (Arc::clone(self), Arc::clone(connection));
            let generation = lost.generation + 1;
            let task = tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                let renewed = transport.open_session(generation, &connection).await;
                outcome.send_replace(Some(renewed));
            });
            task.abort_handle()
        })
    }

    async fn open_session(&self, generation: u64, connection: &Connection) -> Result<()> {
        let Self { endpoint, offer, name, .. } = self;
        let new = if endpoint.is_http_sse {
            let (_, opened) = http_sse::open(&endpoint.target, offer, name, RENEWAL_TIMEOUT).await?;
            OpenSession::http_sse(opened, generation)
        } else {
            match negotiate::negotiate(&endpoint.target, offer, name, Mode::Legacy, RENEWAL_TIMEOUT).await? {
                ProbeResult::Streamable { session, .. } => OpenSession::streamable(session, generation),
                _ => {
                    let problem = "the server now uses another transport".to_owned();
                    return Err(Error::InvalidConfig { config: name.clone(), problem });
                }
            }
        };
        // Replaces the session under the locks, so that no message of the old session is sent in the new one.
        let mut inbound = self.inbound();
        inbound.drop_handlers(connection);
        connection.renewed(|| self.sessions.replace(new));
        drop(inbound);
        self.sessions.announce(generation);
        Ok(())
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
