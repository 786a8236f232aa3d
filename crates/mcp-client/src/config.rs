//! What a connection is made from: server configs, what the host offers, and known results of negotiation. Plain data.

pub(crate) mod negotiation_cache;
pub(crate) mod offer;
pub(crate) mod rfc_config;
pub(crate) mod server_config;
