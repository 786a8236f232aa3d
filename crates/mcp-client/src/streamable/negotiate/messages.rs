//! The messages of a legacy handshake.

use bytes::Bytes;
use mcp_protocol::ProtocolVersion;
use mcp_protocol::codec::sse::Item;
use mcp_protocol::messages::{Id, InitializeParams, Method, write};

use crate::stream::negotiate::Offer;

/// The greeting of a legacy client.
pub(in crate::streamable) fn initialize(offer: &Offer, version: &ProtocolVersion) -> Bytes {
    let Offer { capabilities, info, .. } = offer;
    let params = InitializeParams::new(version.clone(), capabilities.clone(), info.clone());
    let dialect = version.dialect().unwrap_or(mcp_protocol::Dialect::V2025_11_25);
    let mut body = Vec::new();
    // It has nothing that a revision cannot say.
    let _ = write::request(&mut body, &id(), &Method::Initialize, &dialect.lower(&params));
    body.into()
}

/// The end of a greeting.
pub(in crate::streamable) fn initialized() -> Bytes {
    let mut body = Vec::new();
    let _ = write::notification(&mut body, &Method::Initialized, None);
    body.into()
}

/// The id of what is asked before there is a connection.
pub(in crate::streamable) fn id() -> Id {
    Id::String("negotiation".into())
}

/// Whether an event is the first of the old pair.
pub(in crate::streamable) fn endpoint_of(item: &Item<'_>) -> Option<String> {
    match item {
        Item::Event(event) if event.kind == "endpoint" => {
            Some(String::from_utf8_lossy(event.data).trim().to_owned())
        }
        _ => None,
    }
}
