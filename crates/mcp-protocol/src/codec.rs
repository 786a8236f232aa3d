//! Codecs for lines, server-sent events and header values.
//!
//! The result of a decoder does not depend on the size of the pieces in which its input arrives. Every decoder reads
//! each byte a bounded number of times, and buffers no more than its limit.

pub mod challenge;
pub mod header;
pub(crate) mod input;
pub mod line;
pub mod param_header;
pub mod retry_after;
pub mod sse;
