//! Integration tests, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test helpers fail by panicking")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests use I/O and timeouts")]

mod dialects;
mod display;
mod examples;
mod growth;
mod independent;
mod json_traps;
mod lowering;
mod methods;
mod properties;
mod relay;
mod samples;
mod support;
