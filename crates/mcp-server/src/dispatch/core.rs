//! The state of a server that all its connections share.

use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::Limits;
use mcp_protocol::meta::Meta;
use mcp_protocol::metrics::Metrics;

use super::watchdog::Watchdog;
use crate::budget::Budget;
use crate::call::approval::Approver;
use crate::call::confirmation_store::ConfirmationStore;
use crate::call::hook::Hook;
use crate::call::seal::Sealer;
use crate::offer::registry::Registry;
use crate::wire_trace::WireTrace;

/// The server state that all connections share.
pub(crate) struct Core {
    pub(crate) registry: Registry,
    pub(crate) sealer: Sealer,
    pub(crate) limits: Limits,
    /// The time for which a call waits for a legacy client to answer.
    pub(crate) ask_timeout: Duration,
    /// The time for which calls in flight may continue after the end of input.
    pub(crate) grace: Duration,
    /// The `_meta` of every modern result: the server info.
    pub(crate) meta: Meta,
    /// Hooks around every call, the outermost first.
    pub(crate) hooks: Vec<Arc<Hook>>,
    /// The function that asks for approval if the client does not support elicitation.
    pub(crate) approver: Option<Arc<Approver>>,
    /// The store of used confirmations.
    pub(crate) confirmation_store: Arc<dyn ConfirmationStore>,
    pub(crate) wire_trace: Option<WireTrace>,
    pub(crate) metrics: Option<Arc<dyn Metrics>>,
    pub(crate) watchdog: Watchdog,
    /// Calls in flight, on all connections together.
    pub(crate) calls: Arc<Budget>,
}
