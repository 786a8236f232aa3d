//! A Model Context Protocol server: an async function becomes a tool.
//!
//! ```no_run
//! use mcp_server::{Error, McpServer, tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Hello {
//!     /// Whom to greet.
//!     name: String,
//! }
//!
//! async fn hello(Hello { name }: Hello) -> String {
//!     format!("Hello, {name}!")
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Error> {
//!     McpServer::new(vec![]).tool(tool("hello", hello).description("Greets somebody.")).serve_stdio().await
//! }
//! ```
//!
//! The server speaks all five protocol revisions at once; functions are written once. What a function can
//! return is [`IntoOutcome`]; what it can do besides returning is in [`Context`]: progress, log messages,
//! asking the person or the model, hearing of its cancellation. What is offered can change while it serves
//! through the [`Registry`]. [`testing`] has a client in memory.
//!
//! # Features
//!
//! | feature | default | what for |
//! |---|---|---|
//! | `stdio` | yes | [`McpServer::serve_stdio`] |
//! | `schemars` | yes | schemas of arguments and results from their types |
//! | `sealing` | yes | asking in the modern era |
//! | `files` | no | [`directory`]: files as resources, with no way out (Unix) |
//! | `log` | no | [`log_to_stderr`] |
//! | `validate` | no | arguments and answers checked against their JSON Schema |
//! | `http` | no | Streamable HTTP as a `tower` service: [`McpServer::into_http_service`] |
//! | `serve` | no | listening by itself: [`McpServer::serve_http`] |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

mod approval;
mod ask;
mod blocking;
mod budget;
mod completion;
mod connection;
mod context;
#[cfg(all(feature = "files", unix))]
mod directory;
mod driver;
mod error;
mod handler;
mod hook;
#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod http;
#[cfg(feature = "log")]
mod log;
mod outcome;
mod outlet;
#[cfg(any(feature = "stdio", feature = "serve"))]
mod pieces;
mod pipe;
mod prompt;
#[cfg(any(feature = "sealing", feature = "http"))]
mod random;
mod registry;
mod reply;
mod resource;
mod router;
mod run;
#[cfg(feature = "schemars")]
mod schema;
mod seal;
mod server;
mod spent;
#[cfg(feature = "stdio")]
mod stdio;
mod template;
pub mod testing;
mod tool;
mod validate;
mod watchdog;

pub use mcp_protocol as protocol;

pub use approval::Proposal;
pub use ask::{Question, Roots};
pub use async_trait::async_trait;
pub use blocking::{Blocking, BlockingShape, blocking};
pub use completion::CompletionRequest;
pub use context::{Context, Principal};
#[cfg(all(feature = "files", unix))]
#[cfg_attr(docsrs, doc(cfg(feature = "files")))]
pub use directory::{RootDir, directory};
pub use error::{AskError, Error, ToolError};
pub use handler::{Handler, NoArgs, ToolArgs};
pub use hook::{Call, Outcome};
#[cfg(feature = "log")]
#[cfg_attr(docsrs, doc(cfg(feature = "log")))]
pub use log::log_to_stderr;
pub use mcp_protocol::Json;
pub use outcome::{IntoOutcome, Structured};
pub use prompt::{IntoPrompt, PromptArguments, ServedPrompt, prompt};
pub use registry::{InvalidDefinition, Registry};
pub use resource::{
    IntoContents, Place, ReadRequest, ServedResource, ServedTemplate, resource, resource_template,
};
pub use server::McpServer;
pub use spent::{ConfirmationStore, ConfirmationUse};
pub use tool::{Tool, ToolSpec, tool};

/// The guides, so that their programs are compiled.
#[cfg(all(doctest, feature = "serve", feature = "files", feature = "log", unix))]
mod guides {
    macro_rules! guides {
        ($($name:ident $file:literal)*) => { $(
            #[doc = include_str!(concat!("../../../docs/guides/", $file))]
            struct $name;
        )* };
    }
    guides! {
        FirstServer "first-server.md"
        State "state.md"
        StructuredOutput "structured-output.md"
        Asking "asking.md"
        ResourcesAndPrompts "resources-and-prompts.md"
        AroundCalls "around-calls.md"
        Http "http.md"
        Limits "limits.md"
        Testing "testing.md"
    }
}
