//! One call: its context, requests to the client, the state that survives a round, hooks, approval, and the reply.

pub(crate) mod approval;
mod ask;
mod confirm;
pub(crate) mod confirmation_store;
pub(crate) mod context;
pub(crate) mod hook;
pub(crate) mod question;
pub(crate) mod reply;
pub(crate) mod rounds;
pub(crate) mod seal;
mod step;
pub(crate) mod validate;
