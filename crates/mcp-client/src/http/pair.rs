//! The old pair: what is posted to one URL is answered on a stream of events. Spec §4.4.
//!
//! It is made a link of lines, so that everything else is as with a process.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mcp_protocol::codec::challenge::Challenge;
use mcp_protocol::codec::line::{Line, Lines};
use mcp_protocol::codec::sse::Item;
use mcp_protocol::messages::{Id, Incoming, Message, Method, parse_bytes};
use mcp_protocol::negotiation::{NegotiationError, Obstacle};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use url::Url;

use super::contact::{Contact, challenges, wait};
use super::events::EventStream;
use super::exchange::is_events;
use super::negotiate::endpoint_of;
use super::network::Network;
use super::policy::Denied;
use super::wire::HttpError;
use crate::error::{EndCause, Ended, Error, Result};
use crate::link::{Link, Owner};
use crate::recipe::Recipe;

/// How long one may take.
const POST: Duration = Duration::from_secs(60);
/// How long the first event may take.
const FIRST: Duration = Duration::from_secs(10);
/// What may wait between the link and the network.
const BUFFER: usize = 64 << 10;

/// A stream whose first event said where to post.
pub(crate) struct Opened {
    contact: Arc<Contact>,
    stream: EventStream,
    to: Target,
}

/// Where to post.
struct Target {
    url: Arc<Url>,
    uri: http::Uri,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

/// What became of asking for a stream that may be one half of a pair.
pub(super) enum Asked {
    Pair(Box<Opened>),
    /// It points somewhere else, where nothing of ours may go.
    OtherOrigin(String),
    /// It is for others only.
    Unauthorized(u16, Vec<Challenge>),
    /// It is something else, with this status, and it may be busy for so long.
    Other(u16, Option<Duration>),
}

/// Asks for a stream and reads its first event.
pub(super) async fn ask(contact: &Arc<Contact>) -> Result<Asked, HttpError> {
    let answer = contact.wire.send(|| contact.get(http::HeaderMap::new(), None)).await?;
    let status = answer.status.as_u16();
    if matches!(status, 401 | 403) {
        return Ok(Asked::Unauthorized(status, challenges(&answer.headers)));
    }
    if !is_events(&answer) {
        return Ok(Asked::Other(status, wait(&answer.headers)));
    }
    let mut stream = EventStream::new(answer.body, &contact.limits);
    let mut endpoint = None;
    stream
        .each(|item| {
            endpoint = endpoint_of(&item);
            true
        })
        .await;
    let Some(to) = endpoint.and_then(|endpoint| contact.url.join(&endpoint).ok()) else {
        return Ok(Asked::Other(status, None));
    };
    if to.origin() != contact.url.origin() || !to.username().is_empty() || to.password().is_some() {
        return Ok(Asked::OtherOrigin(to.origin().ascii_serialization()));
    }
    let Ok(uri) = to.as_str().parse() else { return Ok(Asked::Other(status, None)) };
    let to = Target { url: Arc::new(to), uri };
    Ok(Asked::Pair(Box::new(Opened { contact: Arc::clone(contact), stream, to })))
}

/// The error for a stream that points somewhere else.
pub(super) fn other_origin(recipe: String, origin: &str) -> Error {
    Error::Recipe { recipe, problem: format!("its stream points to another web origin: {origin}") }
}

/// Opens the stream of a recipe that is known to be one half of a pair.
pub(crate) async fn open(recipe: &Recipe, network: &Network) -> Result<Link> {
    let contact = Arc::new(Contact::new(recipe, network)?);
    let failed = |obstacle, problem: String| Error::Connect {
        server: recipe.to_string(),
        source: Box::new(NegotiationError::Http(obstacle)),
        ended: Ended { cause: EndCause::Network(problem), ..Ended::default() },
    };
    match tokio::time::timeout(FIRST.min(recipe.start_budget()), ask(&contact)).await {
        Ok(Ok(Asked::Pair(opened))) => Ok(opened.into_link()),
        Ok(Ok(Asked::OtherOrigin(origin))) => Err(other_origin(recipe.to_string(), &origin)),
        Ok(Ok(Asked::Unauthorized(status, challenges))) => {
            Err(Error::Unauthorized { method: Method::Initialize, status, challenges })
        }
        Ok(Ok(Asked::Other(status, retry_after))) => {
            let problem = format!("status {status}, and no stream that says where to post");
            let is_busy = matches!(status, 408 | 425 | 429 | 502 | 503 | 504);
            let obstacle = if is_busy { Obstacle::Busy { status, retry_after } } else { Obstacle::Network };
            Err(failed(obstacle, problem))
        }
        Ok(Err(HttpError { denied: Some(Denied { host, reason }), .. })) => {
            Err(Error::Denied { host, reason })
        }
        Ok(Err(error)) => Err(failed(Obstacle::Network, error.to_string())),
        Err(_) => Err(failed(Obstacle::Network, "the stream said nothing in time".to_owned())),
    }
}

impl Opened {
    pub(crate) fn into_link(self) -> Link {
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        let (reader, writer) = tokio::io::split(ours);
        let (tell, not_taken) = mpsc::channel(1);
        let (is_there, gone) = watch::channel(());
        let pump = tokio::spawn(async move {
            let _is_there = is_there;
            pump(self, theirs, tell).await;
        });
        let pump = Pump { task: pump.abort_handle(), not_taken: Mutex::new(not_taken), gone };
        Link { reader: Box::new(reader), writer: Box::new(writer), owner: Owner::Pump(Arc::new(pump)) }
    }
}

/// What moves messages between link and network. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Pump {
    task: AbortHandle,
    not_taken: Mutex<mpsc::Receiver<(Id, Error)>>,
    gone: watch::Receiver<()>,
}

impl Pump {
    pub(crate) fn stop(&self) {
        self.task.abort();
    }

    /// Waits until it has ended.
    pub(crate) async fn stopped(&self) {
        self.stop();
        // Nothing is ever sent.
        let _ = self.gone.clone().changed().await;
    }

    /// Waits for a request that the server did not take.
    ///
    /// # Cancellation
    /// Safe.
    pub(crate) async fn not_taken(&self) -> (Id, Error) {
        let next = poll_fn(|cx| self.not_taken.lock().unwrap_or_else(PoisonError::into_inner).poll_recv(cx));
        match next.await {
            Some(told) => told,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Ends when either side does.
async fn pump(opened: Opened, link: DuplexStream, tell: mpsc::Sender<(Id, Error)>) {
    let Opened { contact, stream, to } = opened;
    let (from, into) = tokio::io::split(link);
    tokio::select! {
        () = read(stream, into) => {}
        () = write(&contact, &to, from, tell) => {}
    }
    contact.wire.close().await;
}

/// Events become lines.
async fn read(mut stream: EventStream, mut into: WriteHalf<DuplexStream>) {
    loop {
        let mut line = Vec::new();
        let end = stream
            .each(|item| match item {
                Item::Event(event) if event.kind == "message" => {
                    line.extend(event.data.iter().map(|byte| match byte {
                        b'\n' | b'\r' => b' ',
                        byte => *byte,
                    }));
                    line.push(b'\n');
                    true
                }
                // Nobody waits for it in vain: a line that is cut settles its call.
                Item::TooLong(error) => match error.id.map(|id| serde_json::to_string(&id)) {
                    Some(Ok(id)) => {
                        line.extend_from_slice(
                            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\n").as_bytes(),
                        );
                        true
                    }
                    _ => false,
                },
                _ => false,
            })
            .await;
        if line.is_empty() || into.write_all(&line).await.is_err() {
            return tracing::debug!(?end, "the stream of a pair ended");
        }
    }
}

/// Lines become messages that are posted, one after the other, because their order counts. One that is not taken is told,
/// and the next may be.
async fn write(
    contact: &Contact,
    to: &Target,
    mut from: ReadHalf<DuplexStream>,
    tell: mpsc::Sender<(Id, Error)>,
) {
    let mut lines = Lines::new(&contact.own);
    loop {
        while let Some(Line::Whole(line)) = lines.poll_line() {
            let message = Bytes::copy_from_slice(line);
            let Err(problem) = post(contact, to, &message).await else { continue };
            match parse_bytes(&message, &contact.own) {
                Ok(Incoming::Message(Message::Request(request))) => {
                    if tell.send((request.id, problem(request.method))).await.is_err() {
                        return;
                    }
                }
                _ => tracing::debug!("a message was not taken"),
            }
        }
        if !matches!(from.read_buf(lines.space()).await, Ok(1..)) {
            return;
        }
    }
}

/// Why a message was not taken, once it is known what it was.
type Problem = Box<dyn FnOnce(Method) -> Error + Send>;

async fn post(contact: &Contact, to: &Target, message: &Bytes) -> Result<(), Problem> {
    let posting = async {
        let answer = contact.wire.send(|| contact.post_to(&to.url, &to.uri, message.clone())).await;
        let answer = answer.map_err(|error| -> Problem { Box::new(|method| error.into_lost(method)) })?;
        match answer.status.as_u16() {
            200..300 => {
                contact.wire.drain(answer.body);
                Ok(())
            }
            status @ (401 | 403) => {
                let challenges = challenges(&answer.headers);
                Err(Box::new(move |method| Error::Unauthorized { method, status, challenges }) as Problem)
            }
            _ => {
                let answer = Box::new(contact.status(answer).await.0);
                Err(Box::new(|method| Error::Status { method, answer }) as Problem)
            }
        }
    };
    let late = || HttpError::maybe_sent("the message was not answered in time");
    match tokio::time::timeout(POST, posting).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Box::new(move |method| late().into_lost(method))),
    }
}
