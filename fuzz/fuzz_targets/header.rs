#![no_main]

#[allow(dead_code, reason = "each target calls one of the properties")]
#[path = "../../crates/mcp-protocol/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::header::values_come_back(bytes));
