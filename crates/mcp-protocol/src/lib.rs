//! The Model Context Protocol (MCP), all five revisions, without I/O.
//!
//! An MCP client and server exchange JSON-RPC messages. This crate contains the parts of both that need no I/O: the
//! types, their representation in each revision, the parsing of bytes into messages, the matching of responses to
//! requests, timeouts, and the negotiation of the revision. The crates built on it, `mcp-client` and `mcp-server`, add
//! sockets, processes and timers.
//!
//! ```
//! use mcp_protocol::messages::{Incoming, Message, Method, parse, write};
//! use mcp_protocol::tools::{CallToolParams, CallToolResult};
//! use mcp_protocol::{Dialect, Limits};
//!
//! // Parse a request. Its body stays text.
//! let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"who":"Ada"}}}"#;
//! let Incoming::Message(Message::Request(request)) = parse(line, &Limits::default())? else { panic!() };
//! assert_eq!(request.method, Method::ToolsCall);
//!
//! // Read the body as a type, in the negotiated revision.
//! let dialect = Dialect::V2025_06_18;
//! let call: CallToolParams = dialect.raise(&request.params)?;
//! assert_eq!(call.name, "greet");
//!
//! // Write the response in the same revision.
//! let result = CallToolResult::text("Hello, Ada");
//! let mut out = Vec::new();
//! write::response(&mut out, &request.id, &dialect.lower(&result))?;
//! assert_eq!(out, br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"Hello, Ada"}]}}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Non-goals
//!
//! This crate is neither a client nor a server. It opens no connections, starts no processes, spawns no tasks, writes
//! no logs, and reads no clock, file, environment variable or random source. The `clippy.toml` next to its manifest
//! enforces this.
//!
//! # Modules
//!
//! | task | modules |
//! |---|---|
//! | read and write messages | [`messages`] |
//! | convert between protocol revisions | [`dialect`], [`version`] |
//! | define and call tools | [`tools`], [`content`] |
//! | serve resources, prompts, completion | [`resources`], [`prompts`], [`completion`] |
//! | request user input, sampling or roots | [`input`], [`elicitation`], [`sampling`], [`roots`] |
//! | subscribe to changes, log, run tasks | [`subscriptions`], [`logging`], [`tasks`] |
//! | declare capabilities | [`capabilities`], [`meta`] |
//! | split byte streams into messages | [`codec`] |
//! | track requests in flight | [`peer`] |
//! | negotiate the protocol version | [`negotiation`] |
//! | decide about logins and token refreshes | [`oauth`] |
//! | name servers and tools, detect changes | [`names`], [`fingerprint`] |
//! | look up limits | [`limits`] |
//! | store unparsed JSON | [`json`], [`members`], [`map`] |
//! | test without a network | [`simulated_link`] |
//! | trace and count messages | [`wire_trace`], [`metrics`] |
//!
//! # Driving a machine
//!
//! The state machines ([`peer::Peer`] and those of [`negotiation`]) share one interface. `handle_*` takes an event and
//! the time of the event; `poll_*` returns the next action or deadline. There are no callbacks, locks or timers. The
//! program that connects a machine to a transport is its driver. A driver is a loop:
//!
//! 1. poll the machine for messages to send and failures to report, until there are none;
//! 2. poll the deadline, then wait for it, for bytes or for a command, whichever comes first;
//! 3. pass the event to the machine and repeat.
//!
//! A returned deadline may be earlier than the next timeout, but is never later. Calling `handle_timeout` too early has
//! no effect.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests need a starting instant")
)]
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
pub mod fingerprint;
pub mod input;
pub mod json;
pub mod limits;
pub mod lists;
pub mod logging;
pub mod map;
pub mod members;
pub mod messages;
pub mod meta;
pub mod metrics;
pub mod names;
pub mod negotiation;
pub mod oauth;
pub mod peer;
pub mod prompts;
pub mod resources;
pub mod retry;
pub mod roots;
pub mod safe_text;
pub mod sampling;
pub mod simulated_link;
pub mod subscriptions;
pub mod tasks;
pub mod tools;
pub mod version;
pub mod wire_trace;

pub use dialect::Dialect;
pub use json::Json;
pub use limits::Limits;
pub use map::Map;
pub use version::{Era, ProtocolVersion};
