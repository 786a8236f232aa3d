//! The subscribers to changes of one connection. This module does no I/O: the transport passes the messages in.

use std::collections::{BTreeMap, VecDeque};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mcp_protocol::limits::MAX_URI_BYTES;
use mcp_protocol::messages::Id;
use mcp_protocol::peer::{CallHandle, Timeouts};
use mcp_protocol::subscriptions::{ListenParams, SubscriptionFilter};

/// The timeout for the acknowledgement of a subscription. Once it is acknowledged, the timeout is removed.
pub(crate) const LISTEN_TIMEOUTS: Timeouts = Timeouts::none().idle(Duration::from_secs(10));

/// The maximum number of changes that wait for their reader. A change that already waits is not queued again.
const MAX_QUEUED_CHANGES: usize = 256;

/// A change on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools changed.
    Tools,
    /// The list of prompts changed.
    Prompts,
    /// The list of resources changed.
    Resources,
    /// The resource with this URI changed. It may be a sub-resource of the one that was subscribed.
    Resource(String),
    /// Changes may have been lost, because they were not read in time or the connection was interrupted. Read all lists
    /// and resources again.
    Gap,
}

/// All subscribers of a connection.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    subscribers: Vec<Subscriber>,
    next: u64,
    /// Requests in flight that subscribe to a resource again, with the keys of the subscribers that depend on them.
    resubscriptions: Vec<(CallHandle, Vec<u64>)>,
}

#[derive(Debug)]
struct Subscriber {
    key: u64,
    filter: SubscriptionFilter,
    /// The request of a modern subscription.
    listen: Option<CallHandle>,
    acknowledged: Option<SubscriptionFilter>,
    waiting: VecDeque<Change>,
    state: SubscriberState,
    waker: Option<Waker>,
    /// The task that reads the notification stream, if the subscription has its own stream.
    reader: Option<StreamReader>,
}

/// A task that is aborted with its subscriber.
#[derive(Debug)]
pub(crate) struct StreamReader(tokio::task::AbortHandle);

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SubscriberState {
    Open,
    /// The connection was lost, and may be replaced by a restart or a new session.
    Cut,
    Over,
}

/// The subscriptions to request again, after a restart or in a new session.
#[derive(Debug, Default)]
pub(crate) struct Resubscriptions {
    /// Subscriptions of the modern era, with the keys of their subscribers.
    pub(crate) listens: Vec<(u64, ListenParams)>,
    /// Subscribed resources of the legacy era, with the keys of their subscribers.
    pub(crate) uris: BTreeMap<String, Vec<u64>>,
}

/// The next change for a subscriber, or the reason why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextChange {
    Change(Change),
    /// The connection was lost, and may be replaced by a restart or a new session.
    Cut,
    Over,
}

impl Subscriber {
    fn push(&mut self, change: Change) {
        let change = match change {
            // A server may report any URI below a subscribed URI, so its length is limited.
            Change::Resource(uri) if uri.len() > MAX_URI_BYTES => Change::Gap,
            change => change,
        };
        if self.waiting.contains(&change) {
            return;
        }
        if self.waiting.len() >= MAX_QUEUED_CHANGES {
            self.waiting.clear();
            self.waiting.push_back(Change::Gap);
        } else {
            self.waiting.push_back(change);
        }
        self.wake();
    }

    fn wants(&self, change: &Change) -> bool {
        let filter = &self.filter;
        match change {
            Change::Tools => filter.tools_list_changed == Some(true),
            Change::Prompts => filter.prompts_list_changed == Some(true),
            Change::Resources => filter.resources_list_changed == Some(true),
            // A server may report a sub-resource of a subscribed resource.
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

/// Returns true if `uri` is the subscribed URI `followed` itself, or a URI below it.
pub(crate) fn is_part(uri: &str, followed: &str) -> bool {
    match uri.strip_prefix(followed) {
        Some(rest) => rest.is_empty() || followed.ends_with('/') || rest.starts_with(['/', '?', '#']),
        None => false,
    }
}

impl Subscribers {
    pub(crate) fn add(&mut self, filter: SubscriptionFilter, listen: Option<CallHandle>) -> u64 {
        self.next += 1;
        // A legacy server sends no acknowledgement, so the filter counts as acknowledged.
        let acknowledged = if listen.is_none() { Some(filter.clone()) } else { None };
        self.subscribers.push(Subscriber {
            key: self.next,
            filter,
            listen,
            acknowledged,
            waiting: VecDeque::new(),
            state: SubscriberState::Open,
            waker: None,
            reader: None,
        });
        self.next
    }

    /// Removes a subscriber. Returns its request, if there is one, which the caller has to cancel.
    pub(crate) fn remove(&mut self, key: u64) -> Option<CallHandle> {
        let at = self.subscribers.iter().position(|subscriber| subscriber.key == key)?;
        self.subscribers.remove(at).listen
    }

    /// Returns true if a resource has a subscriber.
    pub(crate) fn follows(&self, uri: &str) -> bool {
        let mut uris = self
            .subscribers
            .iter()
            .flat_map(|subscriber| subscriber.filter.resource_subscriptions.iter().flatten());
        uris.any(|followed| followed == uri)
    }

    /// Queues a change: for one subscription, if a modern server named it, or for all subscribers of a legacy server.
    pub(crate) fn changed(&mut self, subscription: Option<&Id>, change: &Change) {
        for subscriber in &mut self.subscribers {
            let is_meant = match (subscriber.listen, subscription) {
                (Some(call), Some(id)) => call.id() == *id,
                (None, _) => true,
                (Some(_), None) => false,
            };
            if is_meant && subscriber.wants(change) {
                subscriber.push(change.clone());
            }
        }
    }

    /// Records what the server acknowledged. Returns the request of the subscription, so that its timeouts can be
    /// removed.
    pub(crate) fn acknowledged(
        &mut self,
        subscription: &Id,
        filter: SubscriptionFilter,
    ) -> Option<CallHandle> {
        let mut subscribers = self.subscribers.iter_mut();
        let subscriber = subscribers
            .find(|subscriber| subscriber.listen.is_some_and(|call| call.id() == *subscription))?;
        subscriber.acknowledged = Some(filter);
        subscriber.wake();
        subscriber.listen
    }

    /// Ends the subscription with this request, because the request is settled.
    pub(crate) fn end_listen(&mut self, call: CallHandle) {
        for subscriber in self.subscribers.iter_mut().filter(|subscriber| subscriber.listen == Some(call)) {
            subscriber.state = SubscriberState::Over;
            subscriber.wake();
        }
    }

    /// Records a request that subscribes to a resource again.
    pub(crate) fn begin_resubscription(&mut self, call: CallHandle, keys: Vec<u64>) {
        self.resubscriptions.push((call, keys));
    }

    /// Handles the end of a request that subscribes to a resource again. If the server refused it, ends the
    /// subscriptions that depend on it, because they would never report the resource.
    pub(crate) fn end_resubscription(&mut self, call: CallHandle, is_refused: bool) {
        let Some(at) = self.resubscriptions.iter().position(|(other, _)| *other == call) else { return };
        let (_, keys) = self.resubscriptions.swap_remove(at);
        if is_refused {
            self.give_up(|subscriber| keys.contains(&subscriber));
        }
    }

    /// Marks all open subscriptions as lost, until there is a new connection.
    pub(crate) fn cut(&mut self) {
        // The new connection makes these requests again, together with the subscriptions.
        self.resubscriptions.clear();
        for subscriber in
            self.subscribers.iter_mut().filter(|subscriber| subscriber.state == SubscriberState::Open)
        {
            subscriber.state = SubscriberState::Cut;
            subscriber.wake();
        }
    }

    /// Ends all subscriptions.
    pub(crate) fn end(&mut self) {
        for subscriber in &mut self.subscribers {
            subscriber.state = SubscriberState::Over;
            {
                subscriber.reader = None;
            }
            subscriber.wake();
        }
    }

    /// Marks lost subscriptions as open, and queues a gap for each. Returns what has to be requested again.
    pub(crate) fn reopen(&mut self) -> Resubscriptions {
        let mut again = Resubscriptions::default();
        for subscriber in
            self.subscribers.iter_mut().filter(|subscriber| subscriber.state == SubscriberState::Cut)
        {
            subscriber.state = SubscriberState::Open;
            subscriber.push(Change::Gap);
            if subscriber.listen.take().is_some() {
                subscriber.acknowledged = None;
                again.listens.push((subscriber.key, ListenParams::new(subscriber.filter.clone())));
            } else {
                for uri in subscriber.filter.resource_subscriptions.iter().flatten() {
                    again.uris.entry(uri.clone()).or_default().push(subscriber.key);
                }
            }
        }
        again
    }

    /// Ends the subscriptions for whose keys `who` returns true: they cannot be opened again.
    pub(crate) fn give_up(&mut self, who: impl Fn(u64) -> bool) {
        for subscriber in self.subscribers.iter_mut().filter(|subscriber| who(subscriber.key)) {
            subscriber.state = SubscriberState::Over;
            subscriber.wake();
        }
    }

    /// Sets the task that reads the stream of a subscriber. If the subscription is over, the task is aborted.
    pub(crate) fn set_reader(&mut self, key: u64, reader: tokio::task::AbortHandle) {
        let reader = StreamReader(reader);
        if let Some(subscriber) = self.subscribers.iter_mut().find(|subscriber| subscriber.key == key)
            && subscriber.state != SubscriberState::Over
        {
            subscriber.reader = Some(reader);
        }
    }

    /// Queues a gap for one subscriber, or for all if `by` is `None`.
    pub(crate) fn missed(&mut self, by: Option<u64>) {
        for subscriber in
            self.subscribers.iter_mut().filter(|subscriber| by.is_none_or(|key| subscriber.key == key))
        {
            subscriber.push(Change::Gap);
        }
    }

    /// Sets the new request of a subscription.
    pub(crate) fn set_listen(&mut self, key: u64, call: CallHandle) {
        if let Some(subscriber) = self.subscribers.iter_mut().find(|subscriber| subscriber.key == key) {
            subscriber.listen = Some(call);
        }
    }

    pub(crate) fn poll_acknowledged(&mut self, key: u64, cx: &Context<'_>) -> Poll<SubscriptionFilter> {
        let Some(subscriber) = self.subscribers.iter_mut().find(|subscriber| subscriber.key == key) else {
            return Poll::Pending;
        };
        if let Some(told) = &subscriber.acknowledged {
            return Poll::Ready(told.clone());
        }
        subscriber.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns the filter that the server acknowledged last.
    pub(crate) fn last_acknowledged(&self, key: u64) -> Option<&SubscriptionFilter> {
        self.subscribers.iter().find(|subscriber| subscriber.key == key)?.acknowledged.as_ref()
    }

    pub(crate) fn poll_change(&mut self, key: u64, cx: &Context<'_>) -> Poll<NextChange> {
        let Some(subscriber) = self.subscribers.iter_mut().find(|subscriber| subscriber.key == key) else {
            return Poll::Ready(NextChange::Over);
        };
        // After a restart, the gap is reported only once the new subscription is acknowledged. From then on, no change
        // is missed.
        let is_pending = subscriber.state == SubscriberState::Open && subscriber.acknowledged.is_none();
        if !is_pending && let Some(change) = subscriber.waiting.pop_front() {
            return Poll::Ready(NextChange::Change(change));
        }
        match subscriber.state {
            SubscriberState::Open => {
                subscriber.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            SubscriberState::Cut => Poll::Ready(NextChange::Cut),
            SubscriberState::Over => Poll::Ready(NextChange::Over),
        }
    }
}
