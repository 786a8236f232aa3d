//! Bytes in, items out: lines, server-sent events, header values.
//!
//! Every decoder here can be fed byte by byte with the same outcome, looks at each byte a bounded number
//! of times, and keeps no more than its limit.

pub mod challenge;
pub mod header;
pub(crate) mod intake;
pub mod line;
pub mod param_header;
pub mod retry_after;
pub mod sse;
