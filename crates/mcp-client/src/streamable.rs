//! MCP over HTTP: Streamable HTTP in both eras, and the HTTP+SSE transport (2024-11-05).

mod backoff;
mod driver;
mod endpoint;
mod events;
mod exchange;
mod http_sse;
mod listen;
mod negotiate;
mod reconnect;
mod server_stream;
mod target;

pub(crate) use driver::Driver;
pub(crate) use endpoint::Endpoint;
pub(crate) use exchange::Exchange;
pub(crate) use listen::listen;
pub(crate) use negotiate::find;
