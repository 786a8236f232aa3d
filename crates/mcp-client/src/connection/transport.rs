//! The interface between a connection and its transports.
//!
//! The rest of `connection/` and all of `client/` know transports only by the types of this file.

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
    /// In order, over one pair of byte streams. Requests are queued in the outbox, which the driver writes.
    Stream {
        /// True if a server that exits is restarted.
        restarts: bool,
    },
    /// Each request is a separate exchange.
    Exchanges(Arc<dyn Exchanges>),
}

/// A transport that sends each request by itself. It owns its sessions and everything else it needs for that.
pub(crate) trait Exchanges: Debug + Send + Sync {
    /// Begins an exchange. Nothing is sent before the future is polled, which the caller of the request does; dropping
    /// it ends the exchange. When it returns `Ok`, the request is settled or will be by another stream.
    fn begin(self: Arc<Self>, request: OutgoingRequest) -> TransportFuture<'static, Result<()>>;

    /// Reads the notification stream of a subscription until the server ends it, and reopens it when it is cut.
    fn keep_listening(self: Arc<Self>, stream: SubscriptionStream) -> TransportFuture<'static, ()>;

    /// True if tools must be listed before one can be called.
    fn needs_tools(&self) -> bool;

    /// Learns what has to be known of the tools in order to call them. Removes and returns the tools that cannot be
    /// called.
    fn tools_listed(&self, tools: &mut Vec<Tool>) -> Vec<SkippedItem>;

    /// Records that the tools cannot be listed; they are then called without these headers.
    fn tools_unavailable(&self);

    /// Forgets the tools, because the server says that they changed.
    fn tools_changed(&self);

    /// True while the server keeps closing a notification stream that is wanted.
    fn is_failing(&self) -> bool;
}

/// A serialized request, ready to be sent.
pub(crate) struct OutgoingRequest {
    pub(crate) connection: Arc<Connection>,
    pub(crate) call: CallHandle,
    pub(crate) method: Method,
    pub(crate) body: Vec<u8>,
    /// The time at which the caller stops waiting.
    pub(crate) deadline: Option<Instant>,
}

/// A subscription of the modern era that the server has acknowledged.
pub(crate) struct SubscriptionStream {
    pub(crate) connection: Arc<Connection>,
    pub(crate) request: InFlightRequest,
    /// The subscriber.
    pub(crate) key: u64,
    pub(crate) params: ListenParams,
}

/// The tasks behind a connection until it is closed: a driver, and a process if there is one.
pub(crate) trait Supervisor: Debug + Send + Sync {
    /// Restarts a server that has ended, once for all callers.
    fn restart(&self) -> TransportFuture<'_, Result<()>>;

    /// Waits until a connection that was closed has shut down.
    fn shut_down(&self) -> TransportFuture<'_, Shutdown>;

    /// Ends everything at once, without a runtime.
    fn kill(&self);

    /// The group of the server's process, if there is one.
    fn process_group(&self) -> Option<u32> {
        None
    }

    /// The lines that the server's process writes to stderr, if there is one.
    fn stderr(&self) -> Option<Feed<Arc<str>>> {
        None
    }
}

/// Hides the secrets that were given to a server.
pub(crate) trait Mask: Debug + Send {
    /// Returns the text without those values.
    fn mask(&self, text: &str) -> String;
}

impl Transport {
    /// The kind of transport, for the retry decisions.
    pub(crate) fn route(&self) -> Route {
        match self {
            Self::Stream { restarts } => Route::Stream { restarts: *restarts },
            Self::Exchanges(_) => Route::Http,
        }
    }

    /// True if a server that ends is restarted.
    pub(crate) fn restarts(&self) -> bool {
        matches!(self, Self::Stream { restarts: true })
    }

    /// The transport, if each request is a separate exchange.
    pub(crate) fn exchanges(&self) -> Option<&Arc<dyn Exchanges>> {
        match self {
            Self::Stream { .. } => None,
            Self::Exchanges(exchanges) => Some(exchanges),
        }
    }
}
