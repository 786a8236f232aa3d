//! One call: its context, requests to the client, the state kept between rounds, hooks, approval, and the reply.

pub(crate) mod approval;
mod ask;
mod confirm;
pub(crate) mod confirmation_store;
pub(crate) mod context;
pub(crate) mod hook;
pub(crate) mod identity;
pub(crate) mod question;
pub(crate) mod reply;
pub(crate) mod rounds;
pub(crate) mod seal;
mod step;
pub(crate) mod validate;

use std::future::Future;
use std::pin::Pin;

/// A boxed future of a handler, a hook or an approver.
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
