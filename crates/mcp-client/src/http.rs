//! HTTP requests: how servers are reached, and what may be reached at all.
//!
//! A [`Network`] says which certificates are trusted, which proxies lead where, and what the [`NetworkPolicy`] is. Give it to
//! [`Connect::network`](crate::Connect::network).

mod connector;
mod network;
pub(crate) mod policy;
pub(crate) mod request;
pub(crate) mod target_url;

pub use network::{Answering, HttpBody, HttpClient, Network};
pub use policy::{HostError, NetworkPolicy, RangeError};
pub use request::HttpError;
