//! Changes on the server, as one stream in both eras.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mcp_protocol::messages::{EmptyResult, Method};
use mcp_protocol::resources::SubscribeParams;
use mcp_protocol::subscriptions::{ListenParams, SubscriptionFilter};

use crate::client::McpClient;
use crate::connection::subscribers::{Change, LISTEN_TIMEOUTS, NextChange};
use crate::connection::{InFlightRequest, RequestOptions};
use crate::error::{Error, Result, Sent};

/// The maximum time that a subscription waits for queued messages to be sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// A subscription to changes on the server, created by [`McpClient::changes`]. It ends when the server ends it or the
/// connection is lost. Dropping it unsubscribes.
///
/// In the modern era, a subscription has its own stream. In the legacy era, a server reports changed lists without
/// being asked, and each resource is subscribed with a request of its own.
///
/// If the server config allows [`restarts`](crate::ServerConfig::restarts), waiting for the next change restarts a
/// server that has ended and subscribes again; the next change is then a [`Change::Gap`]. If the restarted server
/// refuses to subscribe, the subscription ends.
#[derive(Debug)]
pub struct Changes {
    client: McpClient,
    key: u64,
    acknowledged: SubscriptionFilter,
    followed: Vec<String>,
    /// The request of a modern subscription until it is acknowledged. Dropping it cancels the subscription.
    request: Option<InFlightRequest>,
}

impl McpClient {
    /// Subscribes to changes of lists and of individual resources. Returns once the server has accepted the
    /// subscription.
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
    /// Fails if the server responds with an error, the request times out, or the connection is lost.
    pub async fn changes(&self, filter: SubscriptionFilter) -> Result<Changes> {
        match self.changes_once(filter.clone()).await {
            Err(error @ Error::Lost { sent: Sent::No, .. }) => match self.restart().await {
                Some(restarted) => {
                    restarted?;
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
        let options = RequestOptions { timeouts: LISTEN_TIMEOUTS, ..RequestOptions::default() };
        let params = ListenParams::new(filter.clone());
        let mut key = 0;
        let opened = |state: &mut crate::connection::State, call| {
            key = state.subscribers.add(filter.clone(), Some(call))
        };
        let request = connection.request_with(&Method::Listen, &params, options, opened)?;
        let mut changes = Changes {
            client: self.clone(),
            key,
            acknowledged: SubscriptionFilter::new(),
            followed: Vec::new(),
            request: Some(request),
        };
        changes.acknowledged = poll_fn(|cx| changes.poll_acknowledged(cx)).await?;
        // From here on, the subscriber owns the request and cancels it when it is dropped.
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
        let mut changes = Changes {
            client: self.clone(),
            key,
            acknowledged: told.clone(),
            followed: Vec::new(),
            request: None,
        };
        self.wait_for_queued_messages().await;
        for uri in told.resource_subscriptions.into_iter().flatten() {
            let _: EmptyResult =
                self.request(&Method::ResourcesSubscribe, &SubscribeParams::new(uri.clone())).await?;
            changes.followed.push(uri);
        }
        Ok(changes)
    }
}

impl McpClient {
    /// Over HTTP, waits until queued messages are sent. Otherwise a new `subscribe` could overtake an earlier
    /// `unsubscribe` of the same resource.
    async fn wait_for_queued_messages(&self) {
        if self.exchanges().is_some() {
            let flushed = poll_fn(|cx| self.inner().connection.lock().poll_flushed(cx));
            let _ = tokio::time::timeout(FLUSH_TIMEOUT, flushed).await;
        }
    }
}

impl Changes {
    /// Returns the next change, or `None` once the subscription has ended.
    ///
    /// If a change occurs again before it is read, it is returned once. If more than 256 changes are unread, they are
    /// replaced by one [`Change::Gap`].
    ///
    /// # Cancellation
    /// Cancel safe: nothing is lost.
    pub async fn next(&mut self) -> Option<Change> {
        let connection = &self.client.inner().connection;
        loop {
            match poll_fn(|cx| connection.lock().subscribers.poll_change(self.key, cx)).await {
                NextChange::Change(change) => {
                    if change == Change::Gap
                        && let Some(acknowledged) = connection.lock().subscribers.last_acknowledged(self.key)
                    {
                        self.acknowledged = acknowledged.clone();
                    }
                    return Some(change);
                }
                NextChange::Over => return None,
                NextChange::Cut => self.client.restart().await?.ok()?,
            }
        }
    }

    /// Returns the part of the requested filter that the server agreed to report. After a restart, it is what the
    /// restarted server agreed to, once [`next`](Self::next) has returned the [`Change::Gap`].
    #[must_use]
    pub fn acknowledged(&self) -> &SubscriptionFilter {
        &self.acknowledged
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
                problem: "the notification stream ended before it was acknowledged".to_owned(),
            })),
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let connection = &self.client.inner().connection;
        // Uses one lock for both steps, so that a new subscription to the same resource is queued after this
        // `unsubscribe`.
        let mut state = connection.lock();
        let listen = state.subscribers.remove(self.key);
        connection.cancel(&mut state, listen);
        for uri in self.followed.drain(..) {
            if !state.subscribers.follows(&uri) {
                connection.request_unawaited(
                    &mut state,
                    &Method::ResourcesUnsubscribe,
                    &SubscribeParams::new(uri),
                );
            }
        }
    }
}
