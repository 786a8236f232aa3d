//! What must hold for any input. The property tests, the replayed corpora and the fuzz targets all call these.

pub(crate) mod envelope;
pub(crate) mod header;
pub(crate) mod line;
pub(crate) mod peers;
pub(crate) mod sse;
