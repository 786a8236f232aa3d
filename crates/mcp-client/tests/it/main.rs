//! The client against real processes that misbehave.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod batching;
#[cfg(feature = "blocking")]
mod blocking;
mod compile_errors;
mod crashes;
mod direct_writes;
mod display;
mod eras;
mod faults;
mod garbage;
mod http_cache;
mod http_calls;
mod http_errors;
mod http_limits;
mod http_negotiation;
mod http_sessions;
mod http_sse;
mod http_streams;
mod lists;
mod oauth;
mod oauth_programs;
mod observed;
mod reach;
mod restarts;
mod retries;
mod scripted;
mod sse_server;
mod stderr;
mod support;
mod web;
mod wire_trace;
