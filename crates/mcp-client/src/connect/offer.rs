//! What the client says of itself during negotiation.

use mcp_protocol::ProtocolVersion;
use mcp_protocol::capabilities::{ClientCapabilities, Implementation};

/// The identity, capabilities and versions that the client offers to a server.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) info: Implementation,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) versions: Vec<ProtocolVersion>,
}
