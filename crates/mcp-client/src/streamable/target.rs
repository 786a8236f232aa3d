//! A server's URL, the headers of every request to it, and the connections to it.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use mcp_protocol::Limits;
use mcp_protocol::codec::challenge::Challenge;
use mcp_protocol::codec::header::{LAST_EVENT_ID, PARAM_PREFIX};
use mcp_protocol::codec::retry_after::retry_after;
use mcp_protocol::safe_text::SafeText;
use url::Url;

use crate::config::server_config::{ServerConfig, UrlTarget};
use crate::error::{Error, HttpStatus, Result};
use crate::http::Network;
use crate::http::http_error::HttpError;
use crate::http::request::{HttpConnections, RawRequest, RawResponse, ResponseBody};
use crate::http::target_url::parse_url;

/// The maximum number of bytes that are read of a response that is not a message.
const MAX_EXCERPT_BYTES: usize = 64 << 10;
/// The timeout for reading the body of such a response, so that its status is reported even if the body arrives slowly.
pub(super) const EXCERPT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);
/// The maximum number of characters of such a body that an error shows.
const MAX_SHOWN_CHARS: usize = 200;
/// The minimum length of a value that is masked. Masking every `1`, for example, would make text unreadable.
const MIN_SECRET_BYTES: usize = 4;

/// Headers that a server config cannot set.
const RESERVED_HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The address of a server, with the headers of every request and the connections to it.
pub(crate) struct HttpTarget {
    pub(super) http: HttpConnections,
    pub(super) url: Arc<Url>,
    uri: Uri,
    /// The headers that the host configured.
    given: HeaderMap,
    /// The headers of every posted message. They include the configured ones.
    posted: HeaderMap,
    pub(super) limits: Limits,
    /// The limits for parsing messages of this client itself. They do not limit the size.
    pub(super) own_limits: Limits,
    secrets: Vec<String>,
}

/// Does not show the configured headers.
impl std::fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpTarget").finish_non_exhaustive()
    }
}

impl HttpTarget {
    pub(crate) fn new(config: &ServerConfig<UrlTarget>, network: &Network) -> Result<Self> {
        let unusable = |problem: String| Error::InvalidConfig { config: config.to_string(), problem };
        let address = &config.target;
        let url = parse_url(&address.url).map_err(|problem| unusable(problem.to_owned()))?;
        let uri = url.as_str().parse().map_err(|_| unusable("not a valid URL".to_owned()))?;
        let mut given = HeaderMap::new();
        for (name, value) in &address.headers {
            let (name, value) = header(name, value).map_err(unusable)?;
            given.append(name, value);
        }
        given.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut posted = given.clone();
        posted.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        posted.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let query = url
            .query_pairs()
            .map(|(_, value)| value.into_owned())
            .filter(|value| value.len() >= MIN_SECRET_BYTES);
        let secrets = address.headers.iter().flat_map(|(_, value)| secrets_in(value)).chain(query).collect();
        let connections = HttpConnections::new(network, &url).map_err(unusable)?;
        let limits = config.limits.clone();
        let own_limits = limits.clone().message(usize::MAX / 8);
        Ok(Self { http: connections, url: Arc::new(url), uri, given, posted, limits, own_limits, secrets })
    }

    /// Returns the headers of a posted message.
    pub(super) fn headers(&self) -> HeaderMap {
        self.posted.clone()
    }

    pub(super) fn post(&self, headers: HeaderMap, body: Bytes) -> RawRequest {
        self.request(Method::POST, headers, body)
    }

    /// Creates a request that posts a message to another URL of the same web origin.
    pub(super) fn post_to(&self, url: &Arc<Url>, uri: &Uri, body: Bytes) -> RawRequest {
        RawRequest { url: Arc::clone(url), uri: uri.clone(), ..self.post(self.headers(), body) }
    }

    /// Creates a request for an event stream. With `after`, the stream is resumed after the event with this id.
    pub(super) fn get(&self, mut more: HeaderMap, after: Option<&str>) -> RawRequest {
        more.extend(self.given.clone());
        more.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(id) = after.and_then(|id| HeaderValue::from_str(id).ok()) {
            more.insert(HeaderName::from_static(LAST_EVENT_ID), id);
        }
        self.request(Method::GET, more, Bytes::new())
    }

    pub(super) fn delete(&self, mut more: HeaderMap) -> RawRequest {
        more.extend(self.given.clone());
        self.request(Method::DELETE, more, Bytes::new())
    }

    fn request(&self, method: Method, headers: HeaderMap, body: Bytes) -> RawRequest {
        RawRequest { method, url: Arc::clone(&self.url), uri: self.uri.clone(), headers, body }
    }

    /// Describes a response that is not a message, and returns the first part of its body.
    pub(super) async fn read_status(&self, mut answer: RawResponse) -> (HttpStatus, Bytes) {
        let body = excerpt_of(&mut answer).await;
        (self.describe(&answer, &body), body)
    }

    /// Describes a response that is not a message, given the first part of its body.
    pub(super) fn describe(&self, answer: &RawResponse, body: &[u8]) -> HttpStatus {
        let body = &body[..body.len().min(MAX_EXCERPT_BYTES)];
        // Masks before cutting: a secret that was cut would not be found.
        let text = self.mask(&String::from_utf8_lossy(body));
        HttpStatus {
            status: answer.status.as_u16(),
            content_type: answer.media_type(),
            content_encoding: answer
                .encoding()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
            excerpt: SafeText::new(&text).at_most(MAX_SHOWN_CHARS).to_string(),
            retry_after: retry_after_of(&answer.headers),
            location: location(&answer.headers),
        }
    }

    /// Masks the values of the configured headers and of the query.
    fn mask(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }
}

/// Returns the secrets in the value of a header: the whole value, and its last word, which may be a token.
fn secrets_in(value: &str) -> impl Iterator<Item = String> {
    let last = value.rsplit(' ').next().unwrap_or_default();
    [value.to_owned(), last.to_owned()].into_iter().filter(|secret| secret.len() >= MIN_SECRET_BYTES)
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let shown = SafeText::new(name).at_most(64).to_string();
    let parsed = HeaderName::try_from(name).map_err(|_| format!("`{shown}` is not a valid header name"))?;
    if RESERVED_HEADERS.contains(&parsed.as_str()) || parsed.as_str().starts_with(PARAM_PREFIX) {
        return Err(format!("the header `{shown}` is reserved and cannot be set"));
    }
    let mut value = HeaderValue::try_from(value).map_err(|_| {
        format!("the value of the header `{shown}` has characters that are not allowed in headers")
    })?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

/// Returns the delay of `Retry-After`.
pub(super) fn retry_after_of(headers: &HeaderMap) -> Option<std::time::Duration> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    retry_after(headers.get(RETRY_AFTER)?.to_str().ok()?, now)
}

/// Returns the URL of `Location`, without credentials and query.
pub(super) fn location(headers: &HeaderMap) -> Option<String> {
    let location = headers.get(LOCATION)?.to_str().ok()?;
    Some(crate::config::server_config::shown_url(location))
}

/// Returns the challenges of a 401 or 403 response.
pub(super) fn challenges(headers: &HeaderMap) -> Vec<Challenge> {
    Challenge::parse_all(headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()))
}

/// Reads the first part of a body. Returns nothing if the body is compressed.
pub(super) async fn excerpt_of(answer: &mut RawResponse) -> Bytes {
    let mut read = Vec::new();
    if answer.encoding().is_some() {
        return Bytes::new();
    }
    // A JSON body is read without this timeout, because it can be parsed only as a whole.
    let is_json = answer.media_type().is_some_and(|kind| kind.ends_with("json"));
    let until = (!is_json).then(|| tokio::time::Instant::now() + EXCERPT_TIMEOUT);
    while let Some(Some(Ok(chunk))) = in_time(until, answer.body.chunk()).await {
        read.extend_from_slice(&chunk[..chunk.len().min(MAX_EXCERPT_BYTES - read.len())]);
        if read.len() == MAX_EXCERPT_BYTES {
            break;
        }
    }
    read.into()
}

async fn in_time<T>(until: Option<tokio::time::Instant>, work: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) => tokio::time::timeout_at(until, work).await.ok(),
        None => Some(work.await),
    }
}

/// A body that was read within a limit.
pub(super) enum BodyRead {
    Complete(Bytes),
    TooLong,
}

/// Reads a body. Stops if it is longer than `limit` bytes.
pub(super) async fn read_body(body: &mut ResponseBody, limit: usize) -> Result<BodyRead, HttpError> {
    if body.length().is_some_and(|length| length > limit as u64) {
        return Ok(BodyRead::TooLong);
    }
    let Some(first) = body.chunk().await.transpose()? else { return Ok(BodyRead::Complete(Bytes::new())) };
    let Some(second) = body.chunk().await.transpose()? else {
        return Ok(if first.len() > limit { BodyRead::TooLong } else { BodyRead::Complete(first) });
    };
    // Bodies of one chunk, which are the most common, are not copied.
    let mut all = Vec::with_capacity(first.len() + second.len());
    all.extend_from_slice(&first);
    let mut next = Some(second);
    while let Some(chunk) = next {
        if all.len() + chunk.len() > limit {
            return Ok(BodyRead::TooLong);
        }
        all.extend_from_slice(&chunk);
        next = body.chunk().await.transpose()?;
    }
    Ok(BodyRead::Complete(all.into()))
}
