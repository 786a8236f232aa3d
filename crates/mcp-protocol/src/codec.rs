//! Codecs for lines, server-sent events and header values.
//!
//! Every decoder here accepts input in pieces of any size with the same result, reads each byte a bounded number of
//! times, and buffers no more than its limit.

pub mod challenge;
pub mod header;
pub(crate) mod input;
pub mod line;
pub mod param_header;
pub mod retry_after;
pub mod sse;
