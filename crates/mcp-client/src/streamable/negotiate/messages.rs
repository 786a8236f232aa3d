//! The messages of a legacy handshake.

use bytes::Bytes;
use mcp_protocol::ProtocolVersion;
use mcp_protocol::codec::sse::Item;
use mcp_protocol::messages::{Id, InitializeParams, Method, write};

use crate::config::offer::Offer;

/// Serializes the `initialize` request.
pub(in crate::streamable) fn initialize(offer: &Offer, version: &ProtocolVersion) -> Bytes {
    let Offer { capabilities, info, .. } = offer;
    let params = InitializeParams::new(version.clone(), capabilities.clone(), info.clone());
    let dialect = version.dialect().unwrap_or(mcp_protocol::Dialect::V2025_11_25);
    let mut body = Vec::new();
    // Cannot fail: every revision has these params.
    let _ = write::request(&mut body, &id(), &Method::Initialize, &dialect.lower(&params));
    body.into()
}

/// Serializes `notifications/initialized`.
pub(in crate::streamable) fn initialized() -> Bytes {
    let mut body = Vec::new();
    let _ = write::notification(&mut body, &Method::Initialized, None);
    body.into()
}

/// Returns the id of all requests during a negotiation.
pub(in crate::streamable) fn id() -> Id {
    Id::String("negotiation".into())
}

/// Returns the URL in an `endpoint` event, which is the first event of the HTTP+SSE transport.
pub(in crate::streamable) fn endpoint_of(item: &Item<'_>) -> Option<String> {
    match item {
        Item::Event(event) if event.kind == "endpoint" => {
            Some(String::from_utf8_lossy(event.data).trim().to_owned())
        }
        _ => None,
    }
}
