//! Changes on the server, as one stream in both eras.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mcp_protocol::limits::MAX_URI;
use mcp_protocol::messages::{EmptyResult, Id, Method};
use mcp_protocol::peer::{Call, Clocks};
use mcp_protocol::resources::SubscribeParams;
use mcp_protocol::subscriptions::{ListenParams, SubscriptionFilter};

use crate::client::McpClient;
use crate::connection::{Request, RequestOptions};
use crate::error::{Error, Result, Sent};

/// How long a server may take to say what it will tell; then there is no clock.
pub(crate) const LISTEN: Clocks = Clocks::none().idle(Duration::from_secs(10));

/// How long what was queued may hold up a subscription.
const QUEUED: Duration = Duration::from_secs(2);

/// Changes that may wait for their reader; the same change waits only once.
const WAITING: usize = 256;

/// Something on the server changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources.
    Resources,
    /// A resource, by URI.
    Resource(String),
    /// Changes were lost, because they were not read in time or the connection was lost for a while: look at
    /// everything again.
    Gap,
}

/// Changes on the server, one after the other, until it ends the stream or is gone.
///
/// In the modern era this is a stream of its own; in the legacy era the server tells of its lists unasked, and
/// resources are followed one by one. When it is dropped, the server is told to stop.
///
/// A server that ends and whose config says [`restarts`](crate::ServerConfig::restarts) is started again by whoever waits for the next
/// change; what was followed is followed again, and a [`Change::Gap`] comes first.
#[derive(Debug)]
pub struct Changes {
    client: McpClient,
    key: u64,
    told: SubscriptionFilter,
    followed: Vec<String>,
    /// The stream of the modern era until it is acknowledged. Dropped, it is cancelled.
    request: Option<Request>,
}

impl McpClient {
    /// Follows changes: of lists, and of single resources.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::McpClient) -> mcp_client::Result<()> {
    /// use mcp_client::Change;
    /// use mcp_client::protocol::subscriptions::SubscriptionFilter;
    ///
    /// let mut changes = client.changes(SubscriptionFilter::new().tools_list_changed(true)).await?;
    /// while let Some(Change::Tools | Change::Gap) = changes.next().await {
    ///     println!("{} tools", client.list_tools().await?.len());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the server refuses, the time is over, or the connection is lost.
    pub async fn changes(&self, filter: SubscriptionFilter) -> Result<Changes> {
        match self.changes_once(filter.clone()).await {
            Err(error @ Error::Lost { sent: Sent::No, .. }) => match self.revive().await {
                Some(revived) => {
                    revived?;
                    self.changes_once(filter).await
                }
                None => Err(error),
            },
            changes => changes,
        }
    }

    async fn changes_once(&self, filter: SubscriptionFilter) -> Result<Changes> {
        if self.dialect().is_modern() { self.listen(filter).await } else { self.follow(filter).await }
    }

    async fn listen(&self, filter: SubscriptionFilter) -> Result<Changes> {
        let connection = &self.inner().connection;
        let options = RequestOptions { clocks: LISTEN, ..RequestOptions::default() };
        let params = ListenParams::new(filter.clone());
        let mut key = 0;
        let opened = |state: &mut crate::connection::State, call| {
            key = state.subscribers.add(filter.clone(), Some(call))
        };
        let request = connection.request_with(&Method::Listen, &params, options, opened)?;
        let mut changes = Changes {
            client: self.clone(),
            key,
            told: SubscriptionFilter::new(),
            followed: Vec::new(),
            request: Some(request),
        };
        changes.told = poll_fn(|cx| changes.poll_acknowledged(cx)).await?;
        // From now on the subscribers knows what is to be cancelled.
        if let Some(request) = changes.request.take() {
            connection.keep(request, key, params);
        }
        Ok(changes)
    }

    async fn follow(&self, filter: SubscriptionFilter) -> Result<Changes> {
        let can_follow =
            self.capabilities().resources.as_ref().is_some_and(|resources| resources.subscribe == Some(true));
        let mut told = filter.clone();
        if !can_follow {
            told.resource_subscriptions = None;
        }
        let key = self.inner().connection.lock().follow(told.clone(), &Method::ResourcesSubscribe)?;
        let mut changes =
            Changes { client: self.clone(), key, told: told.clone(), followed: Vec::new(), request: None };
        self.after_what_was_queued().await;
        for uri in told.resource_subscriptions.into_iter().flatten() {
            let _: EmptyResult =
                self.request(&Method::ResourcesSubscribe, &SubscribeParams::new(uri.clone())).await?;
            changes.followed.push(uri);
        }
        Ok(changes)
    }
}

impl McpClient {
    /// Over HTTP nothing says which of two messages comes first: what was given up a moment ago is given up before it is
    /// asked for again.
    async fn after_what_was_queued(&self) {
        if self.exchanges().is_some() {
            let flushed = poll_fn(|cx| self.inner().connection.lock().poll_flushed(cx));
            let _ = tokio::time::timeout(QUEUED, flushed).await;
        }
    }
}

impl Changes {
    /// The next change; `None` once the server has ended the stream or is gone.
    ///
    /// The same change waits only once. A reader that is far behind gets a [`Change::Gap`].
    ///
    /// # Cancellation
    /// Safe: nothing is lost.
    pub async fn next(&mut self) -> Option<Change> {
        let connection = &self.client.inner().connection;
        loop {
            match poll_fn(|cx| connection.lock().subscribers.poll_change(self.key, cx)).await {
                Next::Change(change) => return Some(change),
                Next::Over => return None,
                Next::Cut => self.client.revive().await?.ok()?,
            }
        }
    }

    /// What the server will tell, which may be less than was asked for.
    #[must_use]
    pub fn told(&self) -> &SubscriptionFilter {
        &self.told
    }

    fn poll_acknowledged(&mut self, cx: &mut Context<'_>) -> Poll<Result<SubscriptionFilter>> {
        let acknowledged = self.client.inner().connection.lock().subscribers.poll_acknowledged(self.key, cx);
        if let Poll::Ready(told) = acknowledged {
            return Poll::Ready(Ok(told));
        }
        let Some(request) = &mut self.request else { return Poll::Pending };
        match Pin::new(request).poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(_)) => Poll::Ready(Err(Error::Unreadable {
                method: Method::Listen,
                problem: "the stream ended before it began".to_owned(),
            })),
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let connection = &self.client.inner().connection;
        // One lock for all of it: whoever follows the same from now on asks for it after it was given up.
        let mut state = connection.lock();
        let listen = state.subscribers.remove(self.key);
        connection.cancel(&mut state, listen);
        for uri in self.followed.drain(..) {
            if !state.subscribers.follows(&uri) {
                connection.forget(&mut state, &Method::ResourcesUnsubscribe, &SubscribeParams::new(uri));
            }
        }
    }
}

/// Who follows which changes. Pure: the driver hands in what came.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    followers: Vec<Follower>,
    next: u64,
}

#[derive(Debug)]
struct Follower {
    key: u64,
    filter: SubscriptionFilter,
    /// The request of a modern subscription.
    listen: Option<Call>,
    acknowledged: Option<SubscriptionFilter>,
    waiting: VecDeque<Change>,
    state: Following,
    waker: Option<Waker>,
    /// What reads the stream of a modern server over HTTP.
    carrier: Option<Carrier>,
}

/// A future that ends with the one who wants it.
#[derive(Debug)]
pub(crate) struct Carrier(tokio::task::AbortHandle);

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Following {
    Live,
    /// The link is gone, and there may be another.
    Cut,
    Over,
}

/// What has to be asked for again on a new link.
#[derive(Debug, Default)]
pub(crate) struct Resubscriptions {
    /// Streams of the modern era, by their followers.
    pub(crate) listens: Vec<(u64, ListenParams)>,
    /// Resources, and who follows them.
    pub(crate) uris: BTreeMap<String, Vec<u64>>,
}

/// What comes next for a follower.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Change(Change),
    /// The link is gone, and there may be another.
    Cut,
    Over,
}

impl Follower {
    fn push(&mut self, change: Change) {
        let change = match change {
            // The server makes names up for what lies below what is followed.
            Change::Resource(uri) if uri.len() > MAX_URI => Change::Gap,
            change => change,
        };
        if self.waiting.contains(&change) {
            return;
        }
        if self.waiting.len() >= WAITING {
            self.waiting.clear();
            self.waiting.push_back(Change::Gap);
        } else {
            self.waiting.push_back(change);
        }
        self.wake();
    }

    fn miss(&mut self) {
        self.push(Change::Gap);
    }

    fn wants(&self, change: &Change) -> bool {
        let filter = &self.filter;
        match change {
            Change::Tools => filter.tools_list_changed == Some(true),
            Change::Prompts => filter.prompts_list_changed == Some(true),
            Change::Resources => filter.resources_list_changed == Some(true),
            // The server may name a part of what is followed.
            Change::Resource(uri) => {
                filter.resource_subscriptions.iter().flatten().any(|followed| is_part(uri, followed))
            }
            Change::Gap => true,
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// True for what is followed itself, and what lies below it.
pub(crate) fn is_part(uri: &str, followed: &str) -> bool {
    match uri.strip_prefix(followed) {
        Some(rest) => rest.is_empty() || followed.ends_with('/') || rest.starts_with(['/', '?', '#']),
        None => false,
    }
}

impl Subscribers {
    pub(crate) fn add(&mut self, filter: SubscriptionFilter, listen: Option<Call>) -> u64 {
        self.next += 1;
        // A legacy connection promises nothing, and keeps what its capabilities say.
        let acknowledged = if listen.is_none() { Some(filter.clone()) } else { None };
        self.followers.push(Follower {
            key: self.next,
            filter,
            listen,
            acknowledged,
            waiting: VecDeque::new(),
            state: Following::Live,
            waker: None,
            carrier: None,
        });
        self.next
    }

    /// Gives the request that has to be cancelled.
    pub(crate) fn remove(&mut self, key: u64) -> Option<Call> {
        let at = self.followers.iter().position(|follower| follower.key == key)?;
        self.followers.remove(at).listen
    }

    /// True if a resource is followed by somebody.
    pub(crate) fn follows(&self, uri: &str) -> bool {
        let mut uris = self
            .followers
            .iter()
            .flat_map(|follower| follower.filter.resource_subscriptions.iter().flatten());
        uris.any(|followed| followed == uri)
    }

    /// A change came: in the modern era for one subscription, in the legacy era for everybody.
    pub(crate) fn changed(&mut self, subscription: Option<&Id>, change: &Change) {
        for follower in &mut self.followers {
            let is_meant = match (follower.listen, subscription) {
                (Some(call), Some(id)) => call.id() == *id,
                (None, _) => true,
                (Some(_), None) => false,
            };
            if is_meant && follower.wants(change) {
                follower.push(change.clone());
            }
        }
    }

    /// The server said what it will tell. Gives the request whose clocks are over.
    pub(crate) fn acknowledged(&mut self, subscription: &Id, filter: SubscriptionFilter) -> Option<Call> {
        let mut followers = self.followers.iter_mut();
        let follower =
            followers.find(|follower| follower.listen.is_some_and(|call| call.id() == *subscription))?;
        follower.acknowledged = Some(filter);
        follower.wake();
        follower.listen
    }

    /// The request of a subscription is settled: it is over.
    pub(crate) fn settled(&mut self, call: Call) {
        for follower in self.followers.iter_mut().filter(|follower| follower.listen == Some(call)) {
            follower.state = Following::Over;
            follower.wake();
        }
    }

    /// The link is gone, and there may be another.
    pub(crate) fn cut(&mut self) {
        for follower in self.followers.iter_mut().filter(|follower| follower.state == Following::Live) {
            follower.state = Following::Cut;
            follower.wake();
        }
    }

    /// Everything is over.
    pub(crate) fn end(&mut self) {
        for follower in &mut self.followers {
            follower.state = Following::Over;
            {
                follower.carrier = None;
            }
            follower.wake();
        }
    }

    /// There is a new link.
    pub(crate) fn reopened(&mut self) -> Resubscriptions {
        let mut again = Resubscriptions::default();
        for follower in self.followers.iter_mut().filter(|follower| follower.state == Following::Cut) {
            follower.state = Following::Live;
            follower.push(Change::Gap);
            if follower.listen.take().is_some() {
                again.listens.push((follower.key, ListenParams::new(follower.filter.clone())));
            } else {
                for uri in follower.filter.resource_subscriptions.iter().flatten() {
                    again.uris.entry(uri.clone()).or_default().push(follower.key);
                }
            }
        }
        again
    }

    /// What some followed cannot be asked for again: for them it is over.
    pub(crate) fn give_up(&mut self, who: impl Fn(u64) -> bool) {
        for follower in self.followers.iter_mut().filter(|follower| who(follower.key)) {
            follower.state = Following::Over;
            follower.wake();
        }
    }

    /// Somebody reads the stream of a follower; not, if nobody follows any more.
    pub(crate) fn carried(&mut self, key: u64, carrier: tokio::task::AbortHandle) {
        let carrier = Carrier(carrier);
        if let Some(follower) = self.followers.iter_mut().find(|follower| follower.key == key)
            && follower.state != Following::Over
        {
            follower.carrier = Some(carrier);
        }
    }

    /// Something may have been missed: by one follower, or by all.
    pub(crate) fn missed(&mut self, by: Option<u64>) {
        for follower in self.followers.iter_mut().filter(|follower| by.is_none_or(|key| follower.key == key))
        {
            follower.miss();
        }
    }

    /// A stream was asked for again.
    pub(crate) fn listens(&mut self, key: u64, call: Call) {
        if let Some(follower) = self.followers.iter_mut().find(|follower| follower.key == key) {
            follower.listen = Some(call);
        }
    }

    pub(crate) fn poll_acknowledged(&mut self, key: u64, cx: &Context<'_>) -> Poll<SubscriptionFilter> {
        let Some(follower) = self.followers.iter_mut().find(|follower| follower.key == key) else {
            return Poll::Pending;
        };
        if let Some(told) = &follower.acknowledged {
            return Poll::Ready(told.clone());
        }
        follower.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn poll_change(&mut self, key: u64, cx: &Context<'_>) -> Poll<Next> {
        let Some(follower) = self.followers.iter_mut().find(|follower| follower.key == key) else {
            return Poll::Ready(Next::Over);
        };
        if let Some(change) = follower.waiting.pop_front() {
            return Poll::Ready(Next::Change(change));
        }
        match follower.state {
            Following::Live => {
                follower.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Following::Cut => Poll::Ready(Next::Cut),
            Following::Over => Poll::Ready(Next::Over),
        }
    }
}
