//! Our client against our server, in memory, in every revision.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod calls;
mod credentials;
mod error_messages;
mod in_memory;
mod inputs;
mod lifecycle;
mod network;
mod offers;
mod raw;
mod shutdown;
mod support;
