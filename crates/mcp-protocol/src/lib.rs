//! The Model Context Protocol, five revisions of it, without a line of I/O.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

mod macros;
mod union;

pub mod capabilities;
pub mod codec;
pub mod completion;
pub mod content;
pub mod dialect;
pub mod elicitation;
pub mod errors;
pub mod input;
pub mod json;
pub mod limits;
pub mod logging;
pub mod members;
pub mod messages;
pub mod meta;
pub mod names;
pub mod negotiation;
pub mod peer;
pub mod prompts;
pub mod resources;
pub mod roots;
pub mod sampling;
pub mod subscriptions;
pub mod tasks;
pub mod tools;
pub mod version;
pub mod wire;

pub use dialect::Dialect;
pub use json::Json;
pub use limits::Limits;
pub use version::{Era, ProtocolVersion};
