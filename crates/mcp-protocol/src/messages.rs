//! JSON-RPC messages: read with one pass over the text, written once.
//!
//! [`parse`] finds where things stand in a message and decides what it is. Bodies (`params` and `result`)
//! stay text until someone asks for a type: see [`Body`]. The functions in [`mod@write`] append messages to a
//! buffer. The messages of both lifecycles, `initialize` and `server/discover`, are here too.
//!
//! Spec: MCP 2026-07-28, basic; MCP 2025-03-26, basic (batches).

mod body;
mod envelope;
mod id;
mod lifecycle;
mod method;
mod notifications;
pub mod write;

pub use body::{Body, KeptBody};
pub use envelope::{
    Batch, Incoming, Message, Notification, Request, Response, parse, parse_bytes, salvage_id,
};
pub use id::{Id, ProgressToken};
pub(crate) use lifecycle::is_complete;
pub use lifecycle::{
    CacheScope, DiscoverResult, EmptyParams, EmptyResult, InitializeParams, InitializeResult, PageParams,
    ResultType, TimeToLive,
};
pub use method::Method;
pub use notifications::{CancelledParams, ProgressParams};
