//! The client against real processes that misbehave.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod blocking;
mod compile_errors;
mod crashes;
mod display;
mod eras;
mod faults;
mod http;
mod http_negotiation;
mod http_sse;
mod lists;
mod reach;
mod restarts;
mod retries;
mod support;
mod web;
