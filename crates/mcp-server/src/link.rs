//! A connection over a pair of byte streams, with one message per line.

#[cfg(any(feature = "stdio", feature = "serve"))]
pub(crate) mod chunks;
pub(crate) mod driver;
pub(crate) mod io;
pub(crate) mod pipe;
#[cfg(feature = "stdio")]
pub(crate) mod stdio;
