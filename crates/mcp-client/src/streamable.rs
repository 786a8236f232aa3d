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
mod renewal;
mod server_stream;
mod session;
mod supervisor;
mod target;
mod tool_headers;
mod transport;

pub(crate) use negotiate::find;
pub(crate) use supervisor::HttpSupervisor;
pub(crate) use transport::HttpTransport;

use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
