//! Plain data: server configs, what the client offers to a server, and cached negotiation results.

pub(crate) mod negotiation_cache;
pub(crate) mod offer;
pub(crate) mod rfc_config;
pub(crate) mod server_config;
