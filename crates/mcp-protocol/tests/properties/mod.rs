//! Properties that must hold for any input, shared by the property tests, the replayed corpora and the fuzz targets.

pub(crate) mod envelope;
pub(crate) mod header;
pub(crate) mod line;
pub(crate) mod peers;
pub(crate) mod sse;
