//! The state of one connection over byte streams, or of one legacy HTTP session: requests in flight, log level and
//! resource subscriptions.

pub(crate) mod outlet;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcp_protocol::capabilities::{ClientCapabilities, Implementation};
use mcp_protocol::dialect::Lower;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::logging::LogLevel;
use mcp_protocol::messages::{CancelledParams, Method, Request, Response, write};
use mcp_protocol::peer::{CallHandle, DuplicateIds, OpenError, Peer, Timeouts, Transmit};
use mcp_protocol::{Dialect, Json, Limits, Map};
use tokio::sync::oneshot;

use crate::budget::{Budget, PARSED_SIZE_FACTOR, Share};
use crate::connection::outlet::Outlet;
use crate::error::AskError;

/// One connection or legacy session, shared by its driver and its calls.
#[derive(Debug)]
pub(crate) struct Connection {
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) peer: Peer,
    /// Requests to the client that are in flight.
    waiting: Map<CallHandle, oneshot::Sender<Result<Json, AskError>>>,
    pub(crate) log_level: Option<LogLevel>,
    /// Subscribed resources (`resources/subscribe`).
    pub(crate) subscribed: SubscribedUris,
}

/// The URIs of the subscribed resources, limited in number and memory.
#[derive(Debug, Default)]
pub(crate) struct SubscribedUris {
    uris: Map<String, ()>,
    bytes: usize,
    /// The memory charged for the URIs.
    memory: Option<Share>,
}

/// The maximum number of resource subscriptions of one connection.
pub(crate) const MAX_SUBSCRIBED_URIS: usize = 1000;
/// The memory of an entry besides its URI, in bytes.
pub(crate) const URI_OVERHEAD_BYTES: usize = 64;

impl SubscribedUris {
    /// Adds a URI, or returns the error message.
    pub(crate) fn insert(&mut self, uri: String) -> Result<(), &'static str> {
        if self.uris.contains_key(&uri) {
            return Ok(());
        }
        if self.uris.len() >= MAX_SUBSCRIBED_URIS {
            return Err("too many subscriptions; unsubscribe from other resources first");
        }
        let bytes = self.bytes + uri.len() + URI_OVERHEAD_BYTES;
        if !self.memory.as_mut().is_none_or(|memory| memory.resize(bytes)) {
            return Err("no memory left for subscriptions; unsubscribe from other resources first");
        }
        self.bytes = bytes;
        self.uris.insert(uri, ());
        Ok(())
    }

    pub(crate) fn remove(&mut self, uri: &str) {
        if self.uris.remove(uri).is_some() {
            self.bytes -= uri.len() + URI_OVERHEAD_BYTES;
            if let Some(memory) = &mut self.memory {
                memory.resize(self.bytes);
            }
        }
    }

    pub(crate) fn contains(&self, uri: &str) -> bool {
        self.uris.contains_key(uri)
    }

    pub(crate) fn uris(&self) -> Vec<String> {
        self.uris.keys().cloned().collect()
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The client info and capabilities of a legacy client.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) info: Implementation,
}

/// The maximum size of client info and capabilities, in bytes.
const MAX_CLIENT_BYTES: usize = 64 << 10;

impl Client {
    /// Returns the memory to charge for the client info and capabilities in an `initialize` request, or an error if
    /// they are too large.
    pub(crate) fn memory_of(request: &Request<'_>) -> Result<usize, ErrorObject> {
        let length = |name| request.params.member(name).ok().flatten().map_or(0, str::len);
        let bytes = length("clientInfo") + length("capabilities");
        if bytes > MAX_CLIENT_BYTES {
            let message =
                format!("`clientInfo` and `capabilities` too large: {bytes} bytes, limit {MAX_CLIENT_BYTES}");
            return Err(ErrorObject::new(ErrorCode::InvalidParams, message));
        }
        Ok(PARSED_SIZE_FACTOR * bytes)
    }
}

impl Connection {
    pub(crate) fn new(limits: Limits, duplicates: DuplicateIds, memory: Option<&Arc<Budget>>) -> Self {
        Self {
            state: Mutex::new(State {
                peer: Peer::server(limits, duplicates),
                waiting: Map::new(),
                log_level: None,
                subscribed: SubscribedUris {
                    memory: memory.map(|memory| memory.overdraw(0)),
                    ..SubscribedUris::default()
                },
            }),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a response of the client to the call that waits for it.
    pub(crate) fn settle(&self, call: CallHandle, response: &Response<'_>) {
        let answer = match &response.outcome {
            Ok(result) => result.text().parse().map_err(|_| unreadable()),
            Err(error) => Err(AskError::Refused(Box::new(error.clone()))),
        };
        self.answer(call, answer);
    }

    /// Fails a request to the client, because its response is not valid.
    pub(crate) fn settle_broken(&self, call: CallHandle) {
        self.answer(call, Err(unreadable()));
    }

    fn answer(&self, call: CallHandle, answer: Result<Json, AskError>) {
        if let Some(waiting) = self.lock().waiting.remove(&call) {
            // Fails if the request was dropped.
            let _ = waiting.send(answer);
        }
    }

    /// Sends a request to the client and waits for the response.
    ///
    /// # Cancellation
    /// If the future is dropped before the response arrives, sends `notifications/cancelled`.
    pub(crate) async fn request(
        &self,
        outlet: &Outlet,
        dialect: Dialect,
        method: &Method,
        params: &(dyn Lower + Sync),
        timeout: Duration,
    ) -> Result<Json, AskError> {
        let (sender, receiver) = oneshot::channel();
        let call = {
            let mut state = self.lock();
            let call =
                state.peer.open(method, Timeouts::none(), Instant::now()).map_err(
                    |refused| match refused {
                        OpenError::Closed => AskError::Lost,
                        other => AskError::Malformed(other.to_string()),
                    },
                )?;
            state.waiting.insert(call, sender);
            call
        };
        let _guard = RequestGuard { connection: self, outlet, dialect, call };
        let mut fault = None;
        outlet
            .send(|out| {
                let written = write::request(out, &call.id(), method, &dialect.lower(params));
                fault = written.as_ref().err().map(ToString::to_string);
                written
            })
            .map_err(|_| AskError::Lost)?;
        if let Some(fault) = fault {
            return Err(AskError::Malformed(fault));
        }
        match tokio::time::timeout(timeout, receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(AskError::Lost),
            Err(_) => Err(AskError::TimedOut),
        }
    }

    /// Closes the connection: requests in flight fail, subscriptions end.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.peer.handle_closed();
        state.waiting.clear();
        state.subscribed.clear();
    }

    /// Sends the messages that the protocol machine has queued.
    pub(crate) fn transmit(state: &mut State, outlet: &Outlet, dialect: Dialect) {
        while let Some(transmit) = state.peer.poll_transmit() {
            // Fails if the connection is closed.
            let _ = match transmit {
                Transmit::Cancelled { id, reason } => {
                    let params = CancelledParams::new(id).reason(reason);
                    outlet.send(|out| {
                        write::notification(out, &Method::Cancelled, Some(&dialect.lower(&params)))
                    })
                }
                Transmit::Error { id, error } => {
                    outlet.send(|out| write_error(out, id.as_ref(), dialect, &error))
                }
                _ => Ok(()),
            };
        }
    }
}

/// Writes an error response. A missing id is written as the dialect requires.
pub(crate) fn write_error(
    out: &mut Vec<u8>,
    id: Option<&mcp_protocol::messages::Id>,
    dialect: Dialect,
    error: &ErrorObject,
) -> Result<(), serde_json::Error> {
    let no_id = dialect.no_id();
    write::error(out, id, no_id, &dialect.lower(error))
}

fn unreadable() -> AskError {
    AskError::Malformed("the client's answer is not valid JSON".to_owned())
}

/// A guard of a request in flight, which cancels the request if it is dropped before the response.
struct RequestGuard<'a> {
    connection: &'a Connection,
    outlet: &'a Outlet,
    dialect: Dialect,
    call: CallHandle,
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.connection.lock();
        state.waiting.remove(&self.call);
        if state.peer.cancel(self.call, "the call that sent this request has ended") {
            Connection::transmit(&mut state, self.outlet, self.dialect);
        }
    }
}
