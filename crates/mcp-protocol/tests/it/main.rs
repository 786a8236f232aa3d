//! One binary for the tests that look at the crate from outside.

mod examples;
mod support;
