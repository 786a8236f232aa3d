//! The identity, capabilities and versions that the client offers during negotiation.

use mcp_protocol::ProtocolVersion;
use mcp_protocol::capabilities::{ClientCapabilities, Implementation};

/// The identity, capabilities and versions that the client offers to a server.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) info: Implementation,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) versions: Vec<ProtocolVersion>,
}

/// Returns true if the client declares all capabilities that a server requires.
pub(crate) fn has_all(ours: &ClientCapabilities, required: &ClientCapabilities) -> bool {
    (required.elicitation.is_none() || ours.elicitation.is_some())
        && (required.sampling.is_none() || ours.sampling.is_some())
        && (required.roots.is_none() || ours.roots.is_some())
        && required.extensions.as_ref().is_none_or(mcp_protocol::Map::is_empty)
}
