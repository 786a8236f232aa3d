//! Detects the era and transport of a server behind a URL, by driving
//! [`HttpClientNegotiation`](mcp_protocol::negotiation::HttpClientNegotiation).

mod messages;
mod negotiation;

use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderValue;
use mcp_protocol::Era;
use mcp_protocol::negotiation::{Mode, NegotiationError, NegotiationResult};

use super::http_sse::{self, HttpSseStream};
use super::target::HttpTarget;
use crate::config::negotiation_cache::NegotiationCache;
use crate::config::offer::Offer;
use crate::config::server_config::{ServerConfig, UrlTarget};
use crate::connection::now;
use crate::error::{Error, Result};
use crate::http::Network;

pub(super) use messages::{endpoint_of, id, initialize, initialized};
pub(super) use negotiation::negotiate;

/// The outcome of probing a URL: the transport of the server.
pub(crate) enum ProbeResult {
    /// Streamable HTTP, of either era.
    Streamable { negotiation: Box<NegotiationResult>, session: Option<HeaderValue> },
    /// The HTTP+SSE transport (2024-11-05).
    HttpSse(Box<HttpSseStream>),
}

/// The transport of a server whose revision is known, with its first session.
#[derive(Debug)]
pub(crate) enum SessionStart {
    /// Streamable HTTP, of either era, with the session id if the server assigned one.
    Streamable(Option<HeaderValue>),
    /// The HTTP+SSE transport (2024-11-05), with its open stream.
    HttpSse(Box<HttpSseStream>),
}

/// Negotiates with the server of a server config. If the server is cached as legacy, it is initialized without a probe;
/// if that fails, the negotiation starts again with a probe.
pub(crate) async fn find(
    offer: &Offer,
    config: &ServerConfig<UrlTarget>,
    network: &Network,
    negotiation_cache: Option<&NegotiationCache>,
) -> Result<(Arc<HttpTarget>, NegotiationResult, SessionStart)> {
    let target = Arc::new(HttpTarget::new(config, network)?);
    let name = config.to_string();
    let until = now().checked_add(config.start_budget());
    let left = || until.map_or(config.start_budget(), |until| until.saturating_duration_since(now()));
    if config.target.is_sse {
        let (negotiation, opened) = http_sse::open(&target, offer, &name, left()).await?;
        return Ok((target, negotiation, SessionStart::HttpSse(opened)));
    }
    let digest = config.target.digest();
    let known = negotiation_cache.and_then(|cache| cache.era(&digest, SystemTime::now()));
    let is_guess = config.era == Mode::Auto && known == Some(Era::Legacy);
    let mut mode = if is_guess { Mode::Legacy } else { config.era };
    loop {
        let found = match negotiate(&target, offer, &name, mode, left()).await {
            Ok(ProbeResult::Streamable { negotiation, session }) => {
                Ok((*negotiation, SessionStart::Streamable(session)))
            }
            Ok(ProbeResult::HttpSse(opened)) => {
                let session = http_sse::handshake(&target, offer, &name, opened, left()).await;
                session.map(|(negotiation, opened)| (negotiation, SessionStart::HttpSse(opened)))
            }
            Err(error) => Err(error),
        };
        match found {
            Ok((negotiation, start)) => {
                if let Some(negotiation_cache) = negotiation_cache {
                    negotiation_cache.keep(&digest, &negotiation, SystemTime::now());
                }
                return Ok((target, negotiation, start));
            }
            // Such an error says nothing about the era, so another attempt would not help.
            Err(error) if mode == config.era || is_obstacle(&error) => return Err(error),
            Err(_) => {
                if let Some(negotiation_cache) = negotiation_cache {
                    negotiation_cache.remove(&digest);
                }
                mode = config.era;
            }
        }
    }
}

/// Returns true for an error that says nothing about the era of the server.
fn is_obstacle(error: &Error) -> bool {
    match error {
        Error::Connect { error: source, .. } => matches!(**source, NegotiationError::Http(_)),
        Error::Unauthorized { .. }
        | Error::Denied { .. }
        | Error::InvalidConfig { .. }
        | Error::ForeignEndpoint { .. } => true,
        _ => false,
    }
}
