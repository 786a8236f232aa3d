//! A server behind a URL whose era is known: its session, and what its requests carry besides their body.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_protocol::codec::header;
use mcp_protocol::codec::param_header::{AnnotationError, ParamHeaders};
use mcp_protocol::messages::{Incoming, Message, Method, parse_bytes};
use mcp_protocol::negotiation::Mode;
use mcp_protocol::retry::RestartLimit;
use mcp_protocol::tools::{SkippedTool, Tool};
use mcp_protocol::visible::Visible;
use mcp_protocol::{Limits, ProtocolVersion};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::events::SseMessage;
use super::http_sse::{self, Opened, PostTarget};
use super::negotiate::{self, Found, Start};
use super::reconnect::Gate;
use super::target::HttpTarget;
use crate::connection::inbound::Arrivals;
use crate::connection::{Connection, now};
use crate::error::{Error, Result};
use crate::http::request::{Ask, HttpError};
use crate::stream::negotiate::Offer;

/// How long a new session may take.
const RENEWAL: Duration = Duration::from_secs(30);
/// How long one that is stopped may take to be gone.
const GONE: Duration = Duration::from_secs(1);

/// The most bytes that the annotations of all tools of one server take in memory: 1 KiB for each of 4096 tools.
const MAX_ANNOTATION_BYTES: usize = 4 << 20;

/// A server behind a URL.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(super) target: Arc<HttpTarget>,
    pub(super) is_modern: bool,
    is_pair: bool,
    /// What to say again for a new session.
    offer: Offer,
    name: String,
    version: HeaderValue,
    current: Mutex<Current>,
    renewals: Mutex<Renewals>,
    generations: watch::Sender<u64>,
    /// Held by the one who reads the list of tools for all.
    learning: tokio::sync::Mutex<()>,
    arrivals: Mutex<Arrivals>,
    schemas: Mutex<Schemas>,
    /// For streams that have to be opened again.
    pub(super) gate: Gate,
}

/// The session that there is.
#[derive(Debug)]
struct Current {
    session: Session,
    /// The stream of a pair, until somebody reads it.
    stream: Option<Box<Opened>>,
}

/// The session of a legacy server.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    pub(super) id: Option<HeaderValue>,
    /// Where to post to one half of a pair, for as long as the other is open.
    pub(super) to: Option<Arc<PostTarget>>,
    /// Which one it is.
    pub(super) generation: u64,
}

impl Session {
    fn of(opened: &Opened, generation: u64) -> Self {
        Self { id: None, to: Some(Arc::clone(&opened.to)), generation }
    }

    /// True if a server may say that it has forgotten it.
    pub(super) fn is_one(&self) -> bool {
        self.id.is_some() || self.to.is_some()
    }
}

/// Headers that repeat what stands in a body.
pub(super) type Repeated = Vec<(HeaderName, HeaderValue)>;

/// Which arguments of which tools travel as headers, too.
#[derive(Debug, Default)]
struct Schemas {
    /// The list was read, or could not be.
    is_known: bool,
    /// Only tools that have any.
    headers: BTreeMap<String, Arc<ParamHeaders>>,
}

impl Endpoint {
    pub(crate) fn new(
        target: Arc<HttpTarget>,
        mut offer: Offer,
        name: String,
        version: &ProtocolVersion,
        start: Start,
        arrivals: Arrivals,
    ) -> Self {
        let current = match start {
            Start::Streamable(id) => {
                Current { session: Session { id: id.map(sensitive), ..Session::default() }, stream: None }
            }
            Start::Pair(opened) => Current { session: Session::of(&opened, 0), stream: Some(opened) },
        };
        // Everything that was said is in this revision.
        offer.versions = vec![version.clone()];
        Self {
            target,
            is_modern: version.dialect().is_some_and(|dialect| dialect.is_modern()),
            offer,
            name,
            version: HeaderValue::from_str(version.as_str()).unwrap_or(HeaderValue::from_static("")),
            is_pair: current.stream.is_some(),
            current: Mutex::new(current),
            renewals: Mutex::default(),
            generations: watch::channel(0).0,
            learning: tokio::sync::Mutex::default(),
            arrivals: Mutex::new(arrivals),
            schemas: Mutex::default(),
            gate: Gate::default(),
        }
    }

    /// True while a stream is wanted that keeps ending.
    pub(crate) fn is_failing(&self) -> bool {
        self.gate.is_failing()
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.target.limits
    }

    pub(super) fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        lock(&self.arrivals)
    }

    /// Takes in what came on a stream that belongs to no request.
    pub(super) fn take_in(&self, connection: &Connection, taken: SseMessage<'_>) {
        match taken {
            SseMessage::Message(message) => self.arrivals().line(connection, message, now()),
            SseMessage::TooLong(error) => self.arrivals().too_long(connection, &error),
        }
    }

    /// Told of every new session.
    pub(super) fn generations(&self) -> watch::Receiver<u64> {
        self.generations.subscribe()
    }

    /// Waits for whoever reads the list of tools.
    pub(crate) async fn learning(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.learning.lock().await
    }

    pub(super) fn session(&self) -> Session {
        lock(&self.current).session.clone()
    }

    /// True for the old pair.
    pub(crate) fn is_pair(&self) -> bool {
        self.is_pair
    }

    /// The session of a pair, and its stream if nobody reads it yet.
    pub(super) fn take_stream(&self) -> (Session, Option<Box<Opened>>) {
        let mut current = lock(&self.current);
        (current.session.clone(), current.stream.take())
    }

    /// The stream of a pair has ended, and with it the session.
    pub(super) fn end_stream(&self, session: &Session) {
        let mut current = lock(&self.current);
        if current.session.generation == session.generation {
            current.session.to = None;
        }
    }

    /// True if what is posted in this session can be answered.
    pub(super) fn is_open(&self, session: &Session) -> bool {
        let current = lock(&self.current);
        current.session.generation == session.generation && current.session.to.is_some()
    }

    /// What every request has besides its body.
    fn add_standing(&self, headers: &mut HeaderMap, session: &Session) {
        headers.insert(HeaderName::from_static(header::PROTOCOL_VERSION), self.version.clone());
        if let Some(id) = &session.id {
            headers.insert(HeaderName::from_static(header::SESSION_ID), id.clone());
        }
    }

    /// A message, with what it repeats in headers.
    pub(super) fn message(
        &self,
        repeated: &[(HeaderName, HeaderValue)],
        body: &Bytes,
        session: &Session,
    ) -> Ask {
        if let Some(to) = &session.to {
            return self.target.post_to(&to.url, &to.uri, body.clone());
        }
        let mut headers = self.target.headers();
        self.add_standing(&mut headers, session);
        headers.extend(repeated.iter().cloned());
        self.target.post(headers, body.clone())
    }

    /// A stream of what the server has to say; legacy.
    pub(super) fn stream(&self, session: &Session, after: Option<&str>) -> Ask {
        let mut headers = HeaderMap::new();
        self.add_standing(&mut headers, session);
        self.target.get(headers, after)
    }

    /// Ends a session; legacy.
    pub(super) fn goodbye(&self, session: &Session) -> Ask {
        let mut headers = HeaderMap::new();
        self.add_standing(&mut headers, session);
        self.target.delete(headers)
    }

    /// What the modern era repeats in headers.
    pub(super) fn repeated(&self, method: &Method, body: &[u8]) -> std::result::Result<Repeated, String> {
        if !self.is_modern {
            return Ok(Repeated::new());
        }
        let value = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
        let mut repeated = vec![(HeaderName::from_static(header::METHOD), value(method.as_str())?)];
        if header::name_member(method).is_none() {
            return Ok(repeated);
        }
        // Read from what is sent, so that they cannot differ.
        let Ok(Incoming::Message(Message::Request(request))) = parse_bytes(body, &self.target.own) else {
            return Err("not a request".to_owned());
        };
        let Some(name) = header::name_of(method, &request.params).map_err(|error| error.to_string())? else {
            return Ok(repeated);
        };
        repeated.push((HeaderName::from_static(header::NAME), value(&header::encode(&name))?));
        let schema = lock(&self.schemas).headers.get(&*name).cloned();
        let Some(schema) = schema.filter(|_| *method == Method::ToolsCall) else { return Ok(repeated) };
        let arguments: Option<serde_json::Value> =
            request.params.parse_member("arguments").map_err(|error| error.to_string())?;
        for (name, text) in
            schema.values(&arguments.unwrap_or_default()).map_err(|error| error.to_string())?
        {
            let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
            repeated.push((name, value(&text)?));
        }
        Ok(repeated)
    }

    /// True if nobody knows yet which arguments travel as headers.
    pub(crate) fn is_ignorant(&self) -> bool {
        self.is_modern && !lock(&self.schemas).is_known
    }

    /// Remembers which arguments of these tools travel as headers. Removes and returns the tools whose annotations are
    /// wrong, or are more than is remembered for one server: they must not be called over HTTP.
    pub(crate) fn learn(&self, tools: &mut Vec<Tool>) -> Vec<SkippedTool> {
        let mut unusable = Vec::new();
        let mut schemas = Schemas { is_known: true, headers: BTreeMap::new() };
        let mut bytes = 0;
        let mut annotations = |tool: &Tool| {
            let headers = ParamHeaders::of(&tool.input_schema)?;
            let needed = if headers.is_empty() { 0 } else { headers.memory() + tool.name.len() };
            if bytes + needed > MAX_ANNOTATION_BYTES {
                return Err(AnnotationError::ServerTotal { limit: MAX_ANNOTATION_BYTES });
            }
            bytes += needed;
            Ok(headers)
        };
        // One pass: removing them one by one would move all that follow each time.
        tools.retain_mut(|tool| match annotations(tool) {
            Ok(headers) => {
                if !headers.is_empty() {
                    schemas.headers.insert(tool.name.clone(), Arc::new(headers));
                }
                true
            }
            Err(error) => {
                unusable.push(SkippedTool::new(Some(std::mem::take(&mut tool.name)), error));
                false
            }
        });
        *lock(&self.schemas) = schemas;
        unusable
    }

    /// The list could not be read: calls are made without.
    pub(crate) fn give_up_learning(&self) {
        lock(&self.schemas).is_known = true;
    }

    /// The tools changed.
    pub(crate) fn forget_tools(&self) {
        lock(&self.schemas).is_known = false;
    }

    /// Has a new session instead of this one; whoever comes later waits for the same.
    ///
    /// # Cancellation
    /// Safe: it goes on, for whoever comes next.
    pub(super) async fn renew(self: &Arc<Self>, lost: &Session, connection: &Arc<Connection>) -> Result<()> {
        let Some(mut outcome) = self.begin_renewal(lost, connection) else { return Ok(()) };
        let over = || HttpError::unsent("the connection was closed").into_lost(Method::Initialize);
        let outcome = outcome.wait_for(Option::is_some).await.map_err(|_| over())?;
        match &*outcome {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The same, without waiting for it. Gives where its outcome will be told; `None` if there is a new one.
    pub(super) fn begin_renewal(
        self: &Arc<Self>,
        lost: &Session,
        connection: &Arc<Connection>,
    ) -> Option<watch::Receiver<RenewalOutcome>> {
        let mut renewals = lock(&self.renewals);
        if self.session().generation != lost.generation {
            return None;
        }
        if let Some(under_way) = renewals.last.as_ref().filter(|renewal| !renewal.task.is_finished()) {
            return Some(under_way.outcome.clone());
        }
        let (tell, outcome) = watch::channel(None);
        if renewals.is_over {
            return Some(outcome);
        }
        // Calls must not be a storm either.
        let wait = match renewals.limit.start(now()) {
            Ok(wait) => wait,
            Err(wait) => {
                let keeps = Error::TooManyRestarts { server: self.name.clone(), wait, ended: Arc::default() };
                tell.send_replace(Some(Err(keeps)));
                return Some(outcome);
            }
        };
        tracing::debug!(server = %Visible::name(&self.name), "the server does not know the session; opening a new one");
        let (endpoint, connection, lost) = (Arc::clone(self), Arc::clone(connection), lost.generation);
        let task = tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            let renewed = endpoint.new_session(lost, &connection).await;
            tell.send_replace(Some(renewed));
        });
        renewals.last = Some(Renewal { outcome: outcome.clone(), task: task.abort_handle() });
        Some(outcome)
    }

    async fn new_session(&self, lost: u64, connection: &Connection) -> Result<()> {
        let generation = lost + 1;
        let new = if self.is_pair {
            let (_, opened) = http_sse::open(&self.target, &self.offer, &self.name, RENEWAL).await?;
            Current { session: Session::of(&opened, generation), stream: Some(opened) }
        } else {
            let id = self.new_id().await?.map(sensitive);
            Current { session: Session { id, to: None, generation }, stream: None }
        };
        // At once, so that nothing of the old session is said in the new one.
        let mut arrivals = self.arrivals();
        arrivals.forget(connection);
        connection.renewed(|| *lock(&self.current) = new);
        drop(arrivals);
        self.generations.send_replace(generation);
        Ok(())
    }

    async fn new_id(&self) -> Result<Option<HeaderValue>> {
        let found = negotiate::ask(&self.target, &self.offer, &self.name, Mode::Legacy, RENEWAL).await?;
        let Found::Streamable { session, .. } = found else {
            let problem = "it speaks another transport than before".to_owned();
            return Err(Error::InvalidConfig { config: self.name.clone(), problem });
        };
        Ok(session)
    }

    /// There will be no new session. One that is under way may be had within this time, so that it can be ended.
    pub(super) async fn end_renewals(&self, patience: Duration) {
        let Some(Renewal { mut outcome, task }) = self.stop_renewals() else { return };
        // A pair has nothing that would have to be ended.
        let patience = if self.is_pair { Duration::ZERO } else { patience };
        let _ = tokio::time::timeout(patience, outcome.wait_for(Option::is_some)).await;
        task.abort();
        let gone = async { while outcome.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(GONE, gone).await;
    }

    fn stop_renewals(&self) -> Option<Renewal> {
        let mut renewals = lock(&self.renewals);
        renewals.is_over = true;
        renewals.last.take()
    }

    /// The same at once.
    pub(super) fn abort_renewals(&self) {
        if let Some(renewal) = self.stop_renewals() {
            renewal.task.abort();
        }
    }
}

/// How a new session was had, once that is known.
type RenewalOutcome = Option<Result<()>>;

/// New sessions, one at a time. They belong to no call: one that gives up leaves it to the next.
#[derive(Debug, Default)]
struct Renewals {
    limit: RestartLimit,
    last: Option<Renewal>,
    is_over: bool,
}

#[derive(Debug)]
struct Renewal {
    outcome: watch::Receiver<RenewalOutcome>,
    task: AbortHandle,
}

/// A session is as good as a token to whoever sees it.
fn sensitive(mut id: HeaderValue) -> HeaderValue {
    id.set_sensitive(true);
    id
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
