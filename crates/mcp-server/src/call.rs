//! One call: its context, requests to the client, the state that survives a round, hooks, approval, and the reply.

pub(crate) mod approval;
pub(crate) mod ask;
pub(crate) mod context;
pub(crate) mod hook;
pub(crate) mod reply;
pub(crate) mod seal;
pub(crate) mod spent;
pub(crate) mod validate;
