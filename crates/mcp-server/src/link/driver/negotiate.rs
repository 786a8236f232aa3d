//! Negotiation: determines the era and the dialect of a request.

use std::sync::Arc;

use mcp_protocol::Dialect;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{Message, Method, Request};
use mcp_protocol::meta::Meta;
use mcp_protocol::negotiation::StdioClassification;

use super::Driver;
use crate::call::context::{LegacyClient, Requester};
use crate::call::identity::Identity;
use crate::call::reply::Reply;
use crate::connection::Client;

/// The error message for an `initialize` that exceeds the memory limit.
const NO_CLIENT_MEMORY: &str = "memory limit for clients reached; retry later";

/// The result of negotiation for a request.
pub(super) enum Admission {
    /// The request has to be routed.
    Route(Requester),
    /// The reply is already known.
    Reply(Dialect, Reply),
}

impl Driver<'_> {
    /// Negotiates the dialect of a request. Returns the reply if the request needs no routing.
    pub(super) fn negotiate(&mut self, message: &Message<'_>, request: &Request<'_>) -> Admission {
        // Checked before `classify`, which marks the connection as initialized: a client that gets this error can
        // retry.
        if request.method == Method::Initialize
            && let Err(reply) = self.take_client_memory(request)
        {
            return Admission::Reply(self.dialect(), reply);
        }
        let (dialect, meta) = match self.negotiation.classify(message) {
            StdioClassification::Modern(dialect, meta) => (dialect, Some(meta)),
            StdioClassification::Legacy(dialect) => (dialect, None),
            StdioClassification::Initialize(dialect, params) => {
                let (reply, client) = self.core.initialize(dialect, *params);
                (self.client, self.requester) = (Some(Arc::new(client)), None);
                return Admission::Reply(dialect, reply);
            }
            StdioClassification::Ping => return Admission::Reply(self.dialect(), Reply::Empty),
            StdioClassification::Reject(error) | StdioClassification::RejectWithoutId(error) => {
                return Admission::Reply(self.dialect(), Reply::Error(error));
            }
            _ => {
                let error = ErrorObject::new(ErrorCode::InvalidRequest, "not a request");
                return Admission::Reply(self.dialect(), Reply::Error(error));
            }
        };
        Admission::Route(self.requester(dialect, meta))
    }

    /// Returns the sender of a request. `meta` is the `_meta` of a modern request.
    fn requester(&mut self, dialect: Dialect, meta: Option<Arc<Meta>>) -> Requester {
        match self.requester.take() {
            Some(last) if last.dialect == dialect && last.legacy.is_some() == meta.is_none() => {
                Requester { meta, ..last }
            }
            _ => {
                let (connection, client) = (Arc::clone(&self.connection), self.client.clone());
                let legacy = meta.is_none().then_some(LegacyClient { connection, client });
                let outlet = Arc::clone(&self.outlet);
                let identity = Identity::of(self.principal.clone());
                Requester { dialect, meta, legacy, outlet, identity }
            }
        }
    }

    /// Charges the memory of client info and capabilities, or returns the reply with the error.
    fn take_client_memory(&mut self, request: &Request<'_>) -> Result<(), Reply> {
        let bytes = Client::memory_of(request).map_err(Reply::Error)?;
        if let Some(memory) = &self.memory {
            self.client_memory = Some(memory.take(bytes).ok_or(Reply::Overloaded(NO_CLIENT_MEMORY))?);
        }
        Ok(())
    }

    /// Returns the dialect for messages that do not belong to a request.
    pub(super) fn dialect(&self) -> Dialect {
        self.negotiation.negotiated().unwrap_or(Dialect::V2026_07_28)
    }
}
