//! One binary for the tests that look at the crate from outside.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod dialects;
mod examples;
mod samples;
mod support;
