//! One connection over a pair of byte streams, one message per line.

pub(crate) mod driver;
#[cfg(any(feature = "stdio", feature = "serve"))]
pub(crate) mod pieces;
pub(crate) mod pipe;
#[cfg(feature = "stdio")]
pub(crate) mod stdio;
