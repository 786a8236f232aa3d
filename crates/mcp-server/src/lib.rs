//! A Model Context Protocol server: an async function becomes a tool.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use mcp_server::{McpServer, tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Hello {
//!     /// The name of the person to greet.
//!     name: String,
//! }
//!
//! async fn hello(Hello { name }: Hello) -> String {
//!     format!("Hello, {name}!")
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> ExitCode {
//!     let server = McpServer::named("hello", env!("CARGO_PKG_VERSION"))
//!         .tool(tool("hello", hello).description("Greets somebody."));
//!     if let Err(error) = server.serve_stdio().await {
//!         eprintln!("{error}");
//!         return ExitCode::FAILURE;
//!     }
//!     ExitCode::SUCCESS
//! }
//! ```
//!
//! # What it does for you
//!
//! - **Revisions.** A function is written once; the server speaks all five protocol revisions, on stdio and over HTTP.
//! - **Arguments** are deserialized into your type, whose doc comments become descriptions in the schema. Invalid
//!   arguments do not reach the function; the model gets an error that names the field.
//! - **Errors** of any error type are returned with `?`. If a tool panics, only its own call ends.
//! - **Limits.** Messages, calls in flight, sessions and memory are bounded, and most bounds can be set.
//!
//! # Map
//!
//! | to | look at |
//! |---|---|
//! | write a tool: arguments, results, errors | [`tool()`], [`ToolArgs`], [`IntoOutcome`], [`ToolError`] |
//! | return data with a schema, images or sound | [`Structured`], [`Image`], [`Audio`] |
//! | share state between tools | [`state()`] |
//! | run code that blocks | [`blocking()`] |
//! | send progress and log messages, notice a cancellation | [`Context`] |
//! | ask the user (elicitation) | [`Context::ask_form`], [`Context::ask`], [`Context::confirm`] |
//! | ask the host's language model (sampling), or the host for its folders (roots) | [`Context::ask`], [`Question`], [`Roots`] |
//! | offer resources and prompts, with completion | [`resource()`], [`resource_template()`], [`prompt()`], [`directory()`] |
//! | change the offer while the server runs | [`Registry`] |
//! | wrap calls (middleware), ask for approval | [`McpServer::around`], [`Tool::needs_approval`] |
//! | serve on stdio, over HTTP, or on any byte stream | [`McpServer::serve_stdio`], [`McpServer::serve_http`], [`McpServer::serve`] |
//! | mount a server in axum, and find out who is calling | [`McpServer::into_http_service`], [`Context::extensions`], [`Principal`] |
//! | set limits and timeouts | [`McpServer::limits`], [`http::HttpOptions`] |
//! | test in memory | [`McpServer::in_memory`], [`testing`] |
//! | see every message, count calls | [`WireTrace`], [`Metrics`] |
//!
//! This documentation calls the revisions from 2024-11-05 to 2025-11-25, which begin with `initialize`, *legacy*, and
//! the revision 2026-07-28, in which every request is self-contained, *modern*.
//!
//! # Features
//!
//! | feature | default | purpose |
//! |---|---|---|
//! | `stdio` | yes | [`McpServer::serve_stdio`] |
//! | `schemars` | yes | JSON Schemas of arguments and results, derived from their types |
//! | `sealing` | yes | elicitation, sampling and roots with modern clients |
//! | `files` | no | [`directory`]: files of one directory as resources, safe from path traversal (Unix) |
//! | `log` | no | [`log_to_stderr`] |
//! | `validate` | no | validation of arguments and elicitation answers against their JSON Schema |
//! | `jwt` | no | [`auth::JwtVerifier`]: access tokens that are JWTs |
//! | `http` | no | Streamable HTTP as a `tower` service: [`McpServer::into_http_service`] |
//! | `serve` | no | a built-in HTTP listener: [`McpServer::serve_http`] |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod auth;
mod budget;
mod call;
mod connection;
mod dispatch;
mod error;
#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod http;
mod link;
#[cfg(feature = "log")]
mod log;
mod offer;
#[cfg(any(feature = "sealing", feature = "http"))]
mod random;
mod server;
pub mod testing;
mod wire_trace;

pub use mcp_protocol as protocol;

pub use async_trait::async_trait;
pub use call::approval::Proposal;
pub use call::confirmation_store::{ConfirmationStore, ConfirmationUse};
pub use call::context::Context;
pub use call::hook::{Call, Outcome};
pub use call::identity::Principal;
pub use call::question::{Question, Roots};
pub use error::{AskError, Error, StepError, ToolError};
#[cfg(feature = "log")]
#[cfg_attr(docsrs, doc(cfg(feature = "log")))]
pub use log::log_to_stderr;
pub use mcp_protocol::Json;
pub use mcp_protocol::metrics::Metrics;
pub use offer::blocking::{Blocking, BlockingShape, blocking};
pub use offer::completion::CompletionRequest;
pub use offer::content::{Audio, Image};
#[cfg(all(feature = "files", unix))]
#[cfg_attr(docsrs, doc(cfg(feature = "files")))]
pub use offer::directory::{RootDir, directory};
#[cfg(feature = "schemars")]
#[cfg_attr(docsrs, doc(cfg(feature = "schemars")))]
pub use offer::form::FormAnswer;
pub use offer::handler::{Handler, NoArgs, ToolArgs};
pub use offer::outcome::{IntoOutcome, Structured};
pub use offer::prompt::{IntoPrompt, ServedPrompt, prompt};
pub use offer::prompt_args::{PromptArgs, PromptArguments};
pub use offer::registry::{InvalidDefinition, Registry};
pub use offer::resource::{
    ContentDefaults, IntoContents, ReadArgs, ReadRequest, ServedResource, ServedTemplate, resource,
    resource_template,
};
#[doc(hidden)]
pub use offer::shared_state::{AsyncMethod, MethodParams};
pub use offer::shared_state::{BoundMethod, MethodShape, SharedState, state};
pub use offer::tool::{Tool, tool};
pub use offer::tool_spec::ToolSpec;
pub use server::McpServer;
pub use wire_trace::WireTrace;

/// The guides as doc tests.
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
    }

    #[doc = include_str!("../README.md")]
    struct Readme;
}
