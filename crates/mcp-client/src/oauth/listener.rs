//! Receives the response that the browser of the user brings back: on a port of this machine, or pasted by the user.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_protocol::oauth::redirect::{ExpectedRedirect, RedirectError};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::error::OAuthError;

/// The path to which the browser returns.
const PATH: &str = "/callback";
/// The maximum number of connections at the same time, and the time for the headers of a request.
const MAX_CONNECTIONS: usize = 16;
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// The time in which the last page is sent.
const GOODBYE: Duration = Duration::from_secs(1);
/// The maximum length of the query of a response.
const MAX_QUERY_BYTES: usize = 16 << 10;

/// A listener on a port of this machine.
pub(super) struct RedirectListener {
    listener: TcpListener,
    pub(super) port: u16,
}

impl RedirectListener {
    /// Listens on the first of these ports that is free; port 0 stands for any.
    pub(super) async fn bind(ports: impl IntoIterator<Item = u16>) -> Result<Self, OAuthError> {
        let mut problem = None;
        for port in ports {
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port))
                .await
                .and_then(|it| Ok((it.local_addr()?.port(), it)))
            {
                Ok((port, listener)) => return Ok(Self { listener, port }),
                Err(error) => {
                    problem = Some(format!("cannot listen on port {port} of this machine: {error}"))
                }
            }
        }
        Err(OAuthError::Settings(problem.unwrap_or_default()))
    }

    /// Returns the address to which the browser returns.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the response of this login, which arrives by the browser or is pasted, and returns its code. Closes the
    /// port afterwards.
    pub(super) async fn code(
        self,
        expected: &ExpectedRedirect<'_>,
        pasted: &mut mpsc::Receiver<String>,
    ) -> Result<String, OAuthError> {
        let (state, issuer) = (Arc::<str>::from(expected.state), Arc::<str>::from(expected.issuer));
        let names_issuer = expected.names_issuer;
        let (sender, mut received) = mpsc::channel(1);
        let mut connections = JoinSet::new();
        let result = loop {
            tokio::select! {
                Some(result) = received.recv() => break result,
                Some(text) = pasted.recv() => match check(expected, &query_of(&text)) {
                    // The user may have pasted something else.
                    Err(RedirectError::State | RedirectError::Malformed) => {
                        tracing::warn!("the pasted text is not the address of the page after the login");
                    }
                    result => break result,
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    let Ok((stream, _)) = accepted else { continue };
                    let (state, issuer, sender) = (Arc::clone(&state), Arc::clone(&issuer), sender.clone());
                    let service = service_fn(move |request| {
                        let expected = ExpectedRedirect { state: &state, issuer: &issuer, names_issuer };
                        let response = respond(&request, &expected, &sender);
                        async move { Ok::<_, Infallible>(response) }
                    });
                    let mut builder = http1::Builder::new();
                    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).keep_alive(false);
                    connections.spawn(async move {
                        // Ignored: a connection that fails brings no response.
                        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                    });
                }
            }
        };
        drop(self.listener);
        // The browser gets its page; connections without a request do not delay the login.
        let _ =
            tokio::time::timeout(GOODBYE, async { while connections.join_next().await.is_some() {} }).await;
        result.map_err(error_of)
    }
}

/// Answers one request, and passes its parameters on if they belong to this login.
fn respond(
    request: &Request<Incoming>,
    expected: &ExpectedRedirect<'_>,
    sender: &mpsc::Sender<Result<String, RedirectError>>,
) -> Response<Full<Bytes>> {
    let query = request.uri().query().unwrap_or_default();
    if request.uri().path() != PATH || request.method() != http::Method::GET || query.len() > MAX_QUERY_BYTES
    {
        return page(StatusCode::NOT_FOUND, "There is nothing here.");
    }
    match check(expected, query) {
        // Not from this login: it changes nothing.
        Err(RedirectError::State | RedirectError::Malformed) => {
            page(StatusCode::BAD_REQUEST, "This is not the response to the login that is in progress.")
        }
        result => {
            let (status, text) = match &result {
                Ok(_) => (StatusCode::OK, "You are logged in. You can close this page."),
                Err(_) => {
                    (StatusCode::OK, "The login failed. The program says why. You can close this page.")
                }
            };
            // Full if there is a response already: only the first one counts.
            match sender.try_send(result) {
                Ok(()) => page(status, text),
                Err(_) => page(StatusCode::GONE, "The login is over."),
            }
        }
    }
}

/// Returns a page with a fixed text: nothing of the request is in it.
fn page(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let body = format!("<!doctype html><meta charset=\"utf-8\"><title>Login</title><p>{text}</p>\n");
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
    ] {
        response.headers_mut().insert(name, http::HeaderValue::from_static(value));
    }
    response
}

fn check(expected: &ExpectedRedirect<'_>, query: &str) -> Result<String, RedirectError> {
    expected.check(url::form_urlencoded::parse(query.as_bytes()))
}

/// Returns the query of a pasted address, which a terminal may have broken into lines. A text without a question mark is
/// taken for the query itself.
fn query_of(pasted: &str) -> String {
    let text: String = pasted.chars().filter(|c| !c.is_whitespace()).collect();
    let query = text.split_once('?').map_or(text.as_str(), |(_, query)| query);
    query.split('#').next().unwrap_or_default().to_owned()
}

fn error_of(error: RedirectError) -> OAuthError {
    match error {
        RedirectError::Refused { code, .. } if code == "access_denied" => OAuthError::RefusedByUser,
        RedirectError::Refused { code, description } => {
            OAuthError::Refused { code, description, interval: None }
        }
        RedirectError::Issuer => OAuthError::ForeignResponse,
        RedirectError::State | RedirectError::Malformed => OAuthError::Expired,
    }
}

#[cfg(test)]
mod tests;
