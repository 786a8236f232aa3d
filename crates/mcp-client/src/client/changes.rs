//! Changes on the server, as one stream in both eras.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mcp_protocol::messages::{EmptyResult, Method};
use mcp_protocol::resources::SubscribeParams;
use mcp_protocol::subscriptions::{ListenParams, SubscriptionFilter};

use crate::client::McpClient;
use crate::connection::subscribers::{Change, LISTEN, NextChange};
use crate::connection::{Request, RequestOptions};
use crate::error::{Error, Result, Sent};

/// How long what was queued may hold up a subscription.
const QUEUED: Duration = Duration::from_secs(2);

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
                NextChange::Change(change) => return Some(change),
                NextChange::Over => return None,
                NextChange::Cut => self.client.revive().await?.ok()?,
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
