//! Servers behind a URL: how they are reached, and what may be reached at all.
//!
//! A [`Network`] says which certificates are trusted, which proxies lead where, and what the [`Policy`] is. Give it to
//! [`Connect::network`](crate::Connect::network).

mod backoff;
mod connector;
mod contact;
mod driver;
mod endpoint;
mod events;
mod exchange;
mod gate;
mod listen;
mod negotiate;
mod network;
mod pair;
mod policy;
mod side;
mod wire;

pub(crate) use driver::Driver;
pub(crate) use endpoint::Endpoint;
pub(crate) use exchange::Exchange;
pub(crate) use listen::listen;
pub(crate) use negotiate::find;
pub use network::{Answering, HttpBody, HttpClient, Network};
pub use policy::{HostError, Policy, RangeError};
pub use wire::HttpError;
