//! Server configs, the capabilities that the host offers, and known results of negotiation: plain data.

pub(crate) mod negotiation_cache;
pub(crate) mod offer;
pub(crate) mod rfc_config;
pub(crate) mod server_config;
