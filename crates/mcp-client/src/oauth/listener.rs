//! Receives the response that the browser of the user brings back: on a port of this machine, or pasted by the user.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use mcp_protocol::oauth::redirect::{ExpectedRedirect, RedirectError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::error::OAuthError;

/// The path to which the browser returns.
const PATH: &str = "/callback";
/// The maximum number of connections at the same time, and the longest time for one of them.
const MAX_CONNECTIONS: usize = 16;
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The time in which the last page is sent.
const GOODBYE: Duration = Duration::from_secs(1);
/// The maximum size of a request, and the maximum number of its headers.
const MAX_REQUEST_BYTES: usize = 32 << 10;
const MAX_HEADERS: usize = 64;

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
        let mut fragments = String::new();
        let result = loop {
            tokio::select! {
                Some(result) = received.recv() => break result,
                Some(text) = pasted.recv() => {
                    if let Some(result) = check_pasted(expected, &text, &mut fragments) {
                        break result;
                    }
                }
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    let Ok((stream, _)) = accepted else { continue };
                    let (state, issuer, sender) = (Arc::clone(&state), Arc::clone(&issuer), sender.clone());
                    connections.spawn(async move {
                        let expected = ExpectedRedirect { state: &state, issuer: &issuer, names_issuer };
                        // Ignored: a connection that fails brings no response.
                        let _ = tokio::time::timeout(CONNECTION_TIMEOUT, serve(stream, &expected, &sender)).await;
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

/// Reads one request, answers it with a page, and closes the connection.
async fn serve(
    mut stream: TcpStream,
    expected: &ExpectedRedirect<'_>,
    sender: &mpsc::Sender<Result<String, RedirectError>>,
) -> std::io::Result<()> {
    let mut read = Vec::new();
    let (status, text) = loop {
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&read) {
            Ok(httparse::Status::Complete(_)) => {
                break respond(
                    request.method.unwrap_or_default(),
                    request.path.unwrap_or_default(),
                    expected,
                    sender,
                );
            }
            Ok(httparse::Status::Partial) if read.len() < MAX_REQUEST_BYTES => {}
            _ => break NOTHING,
        }
    };
    stream.write_all(page(status, text).as_bytes()).await?;
    stream.shutdown().await
}

/// The answer to requests that are not the response to a login.
const NOTHING: (&str, &str) = ("404 Not Found", "There is nothing here.");

/// Returns the status and the text for one request, and passes its parameters on if they belong to this login.
fn respond(
    method: &str,
    target: &str,
    expected: &ExpectedRedirect<'_>,
    sender: &mpsc::Sender<Result<String, RedirectError>>,
) -> (&'static str, &'static str) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path != PATH || method != "GET" {
        return NOTHING;
    }
    match check(expected, query) {
        // Not from this login: it changes nothing.
        Err(RedirectError::State | RedirectError::Malformed) => {
            ("400 Bad Request", "This is not the response to the login that is in progress.")
        }
        result => {
            let text = match &result {
                Ok(_) => "You are logged in. You can close this page.",
                Err(_) => "The login failed. The program says why. You can close this page.",
            };
            // Full if there is a response already: only the first one counts.
            match sender.try_send(result) {
                Ok(()) => ("200 OK", text),
                Err(_) => ("410 Gone", "The login is over."),
            }
        }
    }
}

/// Returns a response with a fixed text: nothing of the request is in it.
fn page(status: &str, text: &str) -> String {
    let body = format!("<!doctype html><meta charset=\"utf-8\"><title>Login</title><p>{text}</p>\n");
    format!(
        "HTTP/1.1 {status}\r\n\
         content-type: text/html; charset=utf-8\r\n\
         content-length: {}\r\n\
         content-security-policy: default-src 'none'; frame-ancestors 'none'\r\n\
         cache-control: no-store\r\n\
         referrer-policy: no-referrer\r\n\
         x-content-type-options: nosniff\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
}

fn check(expected: &ExpectedRedirect<'_>, query: &str) -> Result<String, RedirectError> {
    expected.check(url::form_urlencoded::parse(query.as_bytes()))
}

/// Checks a pasted text, and also together with those before it: a terminal may pass a long address on line by line. `None`
/// if it is not the address of the page after the login, because the user may have pasted something else.
fn check_pasted(
    expected: &ExpectedRedirect<'_>,
    text: &str,
    fragments: &mut String,
) -> Option<Result<String, RedirectError>> {
    if fragments.len() + text.len() > MAX_REQUEST_BYTES || text.contains("://") {
        fragments.clear();
    }
    fragments.push_str(text);
    let results = [check(expected, &query_of(text)), check(expected, &query_of(fragments))];
    let found = results
        .into_iter()
        .find(|result| !matches!(result, Err(RedirectError::State | RedirectError::Malformed)));
    if found.is_none() {
        tracing::warn!("the pasted text is not the address of the page after the login");
    }
    found
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
