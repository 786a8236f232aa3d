//! From a request to its handler: routing, the future of a call, and the watchdog.

mod call_builder;
mod calls;
pub(crate) mod core;
mod observed;
mod params;
pub(crate) mod router;
pub(crate) mod run;
pub(crate) mod watchdog;
mod without_handler;
