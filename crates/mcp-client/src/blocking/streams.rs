//! Items that a server sends without a request: changes, log messages and lines of stderr.

use std::sync::Arc;

use mcp_protocol::subscriptions::SubscriptionFilter;

use super::thread::Thread;
use crate::client::changes::Changes as AsyncChanges;
use crate::connection::feed::{Feed as AsyncFeed, FeedItem};
use crate::connection::subscribers::Change;

/// A subscription to changes on the server: an iterator that waits for the next change. See [`crate::Changes`].
#[derive(Debug)]
pub struct Changes {
    /// `None` after reading a change has failed.
    changes: Option<AsyncChanges>,
    acknowledged: SubscriptionFilter,
    thread: Arc<Thread>,
}

impl Changes {
    pub(super) fn new(changes: AsyncChanges, thread: Arc<Thread>) -> Self {
        Self { acknowledged: changes.acknowledged().clone(), changes: Some(changes), thread }
    }

    /// Waits for the next change. Returns `None` once the subscription has ended.
    #[expect(clippy::should_implement_trait, reason = "it does; this is the name in the asynchronous client")]
    pub fn next(&mut self) -> Option<Change> {
        let mut changes = self.changes.take()?;
        let read = async move { (changes.next().await, changes) };
        let (change, changes) = self.thread.run(read).ok()?;
        self.changes = Some(changes);
        change
    }

    /// Returns the part of the requested filter that the server agreed to report when the subscription was created.
    #[must_use]
    pub fn acknowledged(&self) -> &SubscriptionFilter {
        &self.acknowledged
    }
}

impl Iterator for Changes {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        Self::next(self)
    }
}

/// The items that a server sends from now on: an iterator that waits for the next item. See [`crate::Feed`].
#[derive(Debug)]
pub struct Feed<T> {
    /// `None` after reading an item has failed.
    feed: Option<AsyncFeed<T>>,
    thread: Arc<Thread>,
}

impl<T: Clone + Send + 'static> Feed<T> {
    pub(super) fn new(feed: AsyncFeed<T>, thread: Arc<Thread>) -> Self {
        Self { feed: Some(feed), thread }
    }

    /// Waits for the next item. Returns `None` once there are no more items, because the connection or the process has
    /// ended.
    #[expect(clippy::should_implement_trait, reason = "it does; this is the name in the asynchronous client")]
    pub fn next(&mut self) -> Option<FeedItem<T>> {
        let mut feed = self.feed.take()?;
        let read = async move { (feed.next().await, feed) };
        let (item, feed) = self.thread.run(read).ok()?;
        self.feed = Some(feed);
        item
    }
}

impl<T: Clone + Send + 'static> Iterator for Feed<T> {
    type Item = FeedItem<T>;

    fn next(&mut self) -> Option<FeedItem<T>> {
        Self::next(self)
    }
}
