//! HTTP settings: certificates, proxies, name resolution, and the addresses that may be connected to.
//!
//! A [`Network`] holds all of them, including the [`NetworkPolicy`]. Pass it to
//! [`Connect::network`](crate::Connect::network).

#[cfg(feature = "oauth")]
pub(crate) mod authorized;
#[cfg(feature = "oauth")]
pub(crate) mod authorizer;
mod connector;
pub(crate) mod http_error;
mod network;
pub(crate) mod policy;
pub(crate) mod request;
pub(crate) mod target_url;
mod tcp;
mod trace;

pub use http_error::HttpError;
pub use network::{HttpBody, HttpClient, Network, ResponseFuture};
pub use policy::{HostError, NetworkPolicy, RangeError};
