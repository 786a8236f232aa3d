//! The interface between a connection and its transports.
//!
//! The rest of `connection/` and all of `client/` use transports only through the types of this file.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use mcp_protocol::lists::SkippedItem;
use mcp_protocol::messages::Method;
use mcp_protocol::peer::CallHandle;
use mcp_protocol::retry::Route;
use mcp_protocol::subscriptions::ListenParams;
use mcp_protocol::tools::Tool;

use crate::connection::feed::Feed;
use crate::connection::shutdown::Shutdown;
use crate::connection::{Connection, InFlightRequest};
use crate::error::Result;

/// A boxed future of a transport.
pub(crate) type TransportFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The way in which a connection sends its messages.
#[derive(Debug)]
pub(crate) enum Transport {
    /// Messages are sent in order over one pair of byte streams. They are queued in the outbox, which the driver
    /// writes.
    Stream {
        /// True if a server that has exited is restarted on demand.
        restarts: bool,
    },
    /// Each request is a separate exchange.
    Exchanges(Arc<dyn Exchanges>),
}

/// A transport that sends each request as a separate exchange. It owns its sessions and everything else that exchanges
/// need.
pub(crate) trait Exchanges: Debug + Send + Sync {
    /// Begins an exchange. The caller of the request polls the returned future; nothing is sent before its first poll,
    /// and dropping it ends the exchange. If it returns `Ok`, the request is settled, or its response arrives on
    /// another stream.
    fn begin(self: Arc<Self>, request: OutgoingRequest) -> TransportFuture<'static, Result<()>>;

    /// Reads the notification stream of a subscription until the server ends it. If the stream breaks, it is reopened.
    fn keep_listening(self: Arc<Self>, stream: SubscriptionStream) -> TransportFuture<'static, ()>;

    /// Returns true if the tools must be listed before a tool can be called.
    fn needs_tools(&self) -> bool;

    /// Stores what calls must know about the tools. Removes the tools that cannot be called from `tools`, and returns
    /// them.
    fn tools_listed(&self, tools: &mut Vec<Tool>) -> Vec<SkippedItem>;

    /// Records that the tools cannot be listed. Calls are then made without the headers that repeat annotated
    /// arguments.
    fn tools_unavailable(&self);

    /// Discards what is known about the tools, because the server reports that they changed.
    fn tools_changed(&self);

    /// Returns true while the server keeps closing a notification stream that is in use.
    fn is_failing(&self) -> bool;
}

/// A serialized request, ready to be sent.
pub(crate) struct OutgoingRequest {
    pub(crate) connection: Arc<Connection>,
    pub(crate) call: CallHandle,
    pub(crate) method: Method,
    pub(crate) body: Vec<u8>,
    /// The time at which the request times out.
    pub(crate) deadline: Option<Instant>,
}

/// A subscription of the modern era that the server has acknowledged.
pub(crate) struct SubscriptionStream {
    pub(crate) connection: Arc<Connection>,
    pub(crate) request: InFlightRequest,
    /// The key of the subscriber.
    pub(crate) key: u64,
    pub(crate) params: ListenParams,
}

/// The tasks behind a connection: a driver, and a process if there is one.
pub(crate) trait Supervisor: Debug + Send + Sync {
    /// Restarts a server that has ended. Concurrent callers wait for the same restart.
    fn restart(&self) -> TransportFuture<'_, Result<()>>;

    /// Waits for the shutdown of a connection that was closed.
    fn shut_down(&self) -> TransportFuture<'_, Shutdown>;

    /// Ends everything immediately. Works without a runtime.
    fn kill(&self);

    /// Returns the id of the process group of the server, if there is a process.
    fn process_group(&self) -> Option<u32> {
        None
    }

    /// Returns the lines that the server process writes to stderr, if there is a process.
    fn stderr(&self) -> Option<Feed<Arc<str>>> {
        None
    }
}

/// Masks the secrets that were given to a server.
pub(crate) trait Mask: Debug + Send {
    /// Returns the text with all secrets masked.
    fn mask(&self, text: &str) -> String;
}

impl Transport {
    /// Returns the kind of transport, for the retry decisions.
    pub(crate) fn route(&self) -> Route {
        match self {
            Self::Stream { restarts } => Route::Stream { restarts: *restarts },
            Self::Exchanges(_) => Route::Http,
        }
    }

    /// Returns true if a server that has ended is restarted on demand.
    pub(crate) fn restarts(&self) -> bool {
        matches!(self, Self::Stream { restarts: true })
    }

    /// Returns the transport if each request is a separate exchange.
    pub(crate) fn exchanges(&self) -> Option<&Arc<dyn Exchanges>> {
        match self {
            Self::Stream { .. } => None,
            Self::Exchanges(exchanges) => Some(exchanges),
        }
    }
}
