//! A server behind a URL whose era is known: its session, and what its requests carry besides their body.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_protocol::codec::header;
use mcp_protocol::codec::param_header::ParamHeaders;
use mcp_protocol::messages::{Incoming, Message, Method, parse_bytes};
use mcp_protocol::negotiation::Mode;
use mcp_protocol::tools::Tool;
use mcp_protocol::{Limits, ProtocolVersion};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::contact::Contact;
use super::gate::Gate;
use super::negotiate::{self, Found, Start};
use super::pair::{self, Opened, Target};
use super::wire::{Ask, HttpError};
use crate::arrivals::Arrivals;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::negotiate::Offer;

/// How long a new session may take.
const RENEWAL: Duration = Duration::from_secs(30);

/// A server behind a URL.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(super) contact: Arc<Contact>,
    pub(super) is_modern: bool,
    /// The old pair, and its stream until somebody reads it.
    pair: Option<Mutex<Option<Box<Opened>>>>,
    /// What to say again for a new session.
    offer: Offer,
    name: String,
    version: HeaderValue,
    session: Mutex<Session>,
    renewals: Mutex<Renewals>,
    generations: watch::Sender<u64>,
    /// Held by the one who reads the list of tools for all.
    learning: tokio::sync::Mutex<()>,
    arrivals: Mutex<Arrivals>,
    schemas: Mutex<Schemas>,
    /// For streams that have to be opened again.
    pub(super) gate: Gate,
}

/// The session of a legacy server.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    pub(super) id: Option<HeaderValue>,
    /// Where to post to one half of a pair, for as long as the other is open.
    pub(super) to: Option<Arc<Target>>,
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
        contact: Arc<Contact>,
        mut offer: Offer,
        name: String,
        version: &ProtocolVersion,
        start: Start,
        arrivals: Arrivals,
    ) -> Self {
        let (session, pair) = match start {
            Start::Streamable(id) => (Session { id: id.map(sensitive), ..Session::default() }, None),
            Start::Pair(opened) => (Session::of(&opened, 0), Some(Mutex::new(Some(opened)))),
        };
        // Everything that was said is in this revision.
        offer.versions = vec![version.clone()];
        Self {
            contact,
            is_modern: version.dialect().is_some_and(|dialect| dialect.is_modern()),
            offer,
            name,
            version: HeaderValue::from_str(version.as_str()).unwrap_or(HeaderValue::from_static("")),
            session: Mutex::new(session),
            pair,
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
        &self.contact.limits
    }

    pub(super) fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        lock(&self.arrivals)
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
        lock(&self.session).clone()
    }

    /// True for the old pair.
    pub(crate) fn is_pair(&self) -> bool {
        self.pair.is_some()
    }

    /// The stream of a pair that nobody reads yet.
    pub(super) fn take_stream(&self) -> Option<Box<Opened>> {
        lock(self.pair.as_ref()?).take()
    }

    /// The stream of a pair has ended, and with it the session.
    pub(super) fn end_stream(&self, session: &Session) {
        let mut current = lock(&self.session);
        if current.generation == session.generation {
            current.to = None;
        }
    }

    /// True if what was posted in this session can be answered.
    pub(super) fn is_open(&self, session: &Session) -> bool {
        let current = lock(&self.session);
        current.generation == session.generation && current.to.is_some()
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
            return self.contact.post_to(&to.url, &to.uri, body.clone());
        }
        let mut headers = self.contact.headers();
        self.add_standing(&mut headers, session);
        headers.extend(repeated.iter().cloned());
        self.contact.post(headers, body.clone())
    }

    /// A stream of what the server has to say; legacy.
    pub(super) fn stream(&self, session: &Session, after: Option<&str>) -> Ask {
        let mut headers = HeaderMap::new();
        self.add_standing(&mut headers, session);
        self.contact.get(headers, after)
    }

    /// Ends a session; legacy.
    pub(super) fn goodbye(&self, session: &Session) -> Ask {
        let mut headers = HeaderMap::new();
        self.add_standing(&mut headers, session);
        self.contact.delete(headers)
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
        let Ok(Incoming::Message(Message::Request(request))) = parse_bytes(body, &self.contact.own) else {
            return Err("it is no request".to_owned());
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

    /// The tools that the server has now. Gives, for each, what makes it unusable here.
    pub(crate) fn learn(
        &self,
        tools: &mut Vec<Tool>,
    ) -> Vec<(Tool, mcp_protocol::codec::param_header::AnnotationError)> {
        let mut unusable = Vec::new();
        let mut schemas = Schemas { is_known: true, headers: BTreeMap::new() };
        let mut at = 0;
        while let Some(tool) = tools.get(at) {
            match ParamHeaders::of(&tool.input_schema) {
                Ok(headers) => {
                    if !headers.is_empty() {
                        schemas.headers.insert(tool.name.clone(), Arc::new(headers));
                    }
                    at += 1;
                }
                Err(error) => unusable.push((tools.remove(at), error)),
            }
        }
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
            Some(Err(error)) => Err(told_again(error)),
            _ => Ok(()),
        }
    }

    /// The same, without waiting for it. Gives where its outcome will be told; `None` if there is a new one.
    pub(super) fn begin_renewal(
        self: &Arc<Self>,
        lost: &Session,
        connection: &Arc<Connection>,
    ) -> Option<watch::Receiver<Outcome>> {
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
        tracing::debug!(server = %self.name, "has forgotten our session; there is a new one");
        let (endpoint, connection, lost) = (Arc::clone(self), Arc::clone(connection), lost.generation);
        let task = tokio::spawn(async move {
            let renewed = endpoint.new_session(lost, &connection).await;
            tell.send_replace(Some(renewed.map_err(Arc::new)));
        });
        renewals.last = Some(Renewal { outcome: outcome.clone(), task: task.abort_handle() });
        Some(outcome)
    }

    async fn new_session(&self, lost: u64, connection: &Connection) -> Result<()> {
        let generation = lost + 1;
        let session = match &self.pair {
            Some(pair) => {
                let (_, opened) = pair::open(&self.contact, &self.offer, &self.name, RENEWAL).await?;
                let session = Session::of(&opened, generation);
                *lock(pair) = Some(opened);
                session
            }
            None => Session { id: self.new_id().await?.map(sensitive), to: None, generation },
        };
        *lock(&self.session) = session;
        self.generations.send_replace(generation);
        connection.renewed();
        Ok(())
    }

    async fn new_id(&self) -> Result<Option<HeaderValue>> {
        let found = negotiate::ask(&self.contact, &self.offer, &self.name, Mode::Legacy, RENEWAL).await?;
        let Found::Streamable { session, .. } = found else {
            let problem = "it speaks another transport than before".to_owned();
            return Err(Error::Recipe { recipe: self.name.clone(), problem });
        };
        Ok(session)
    }

    /// There will be no new session. One that is under way may be had within this time, so that it can be ended.
    pub(super) async fn end_renewals(&self, patience: Duration) {
        let Some(Renewal { mut outcome, task }) = self.stop_renewals() else { return };
        let _ = tokio::time::timeout(patience, outcome.wait_for(Option::is_some)).await;
        task.abort();
        while outcome.changed().await.is_ok() {}
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
type Outcome = Option<std::result::Result<(), Arc<Error>>>;

/// New sessions, one at a time. They belong to no call: one that gives up leaves it to the next.
#[derive(Debug, Default)]
struct Renewals {
    last: Option<Renewal>,
    is_over: bool,
}

#[derive(Debug)]
struct Renewal {
    outcome: watch::Receiver<Outcome>,
    task: AbortHandle,
}

/// An error for each who waited for the same.
fn told_again(error: &Error) -> Error {
    match error {
        Error::Unauthorized { method, status, challenges } => {
            Error::Unauthorized { method: method.clone(), status: *status, challenges: challenges.clone() }
        }
        Error::Denied { host, reason } => Error::Denied { host: host.clone(), reason: reason.clone() },
        error => HttpError::unsent(error.to_string()).into_lost(Method::Initialize),
    }
}

/// A session is as good as a token to whoever sees it.
fn sensitive(mut id: HeaderValue) -> HeaderValue {
    id.set_sensitive(true);
    id
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
