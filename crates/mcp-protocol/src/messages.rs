//! JSON-RPC messages: parsed in one pass over the text and serialized once.
//!
//! [`parse`] locates the members of a message and classifies it. Bodies (`params` and `result`) stay text until they
//! are read as a type: see [`Body`]. The functions in [`mod@write`] append messages to a buffer. This module also has
//! the lifecycle messages of both eras, `initialize` and `server/discover`.
//!
//! Spec: MCP 2026-07-28, basic; MCP 2025-03-26, basic (batches).

mod body;
mod envelope;
mod id;
mod lifecycle;
mod method;
mod notifications;
pub mod write;

pub use body::{Body, OwnedBody};
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
