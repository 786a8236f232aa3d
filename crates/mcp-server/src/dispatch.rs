//! From a request to its handler: routing, the future of a call, and the watchdog.

pub(crate) mod router;
pub(crate) mod run;
pub(crate) mod watchdog;
