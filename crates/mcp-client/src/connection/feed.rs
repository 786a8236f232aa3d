//! A bounded stream of items, such as log messages and lines of stderr. Items that are not read in time are dropped and
//! counted.

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// A stream of the items that a server sends after the feed was created. A slow reader does not delay the server: if
/// 256 items are unread, each new item replaces the oldest one. [`FeedItem::Gap`] reports the number of dropped items.
#[derive(Debug)]
pub struct Feed<T>(broadcast::Receiver<T>);

/// An item of a [`Feed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedItem<T> {
    /// The next item.
    Next(T),
    /// The number of items that were dropped because they were not read in time.
    Gap(u64),
}

impl<T: Clone> Feed<T> {
    pub(crate) fn new(receiver: broadcast::Receiver<T>) -> Self {
        Self(receiver)
    }

    /// Waits for the next item. Returns `None` once there are no more items, because the connection or the process has
    /// ended.
    ///
    /// # Cancellation
    /// Cancel safe: nothing is lost.
    pub async fn next(&mut self) -> Option<FeedItem<T>> {
        match self.0.recv().await {
            Ok(item) => Some(FeedItem::Next(item)),
            Err(RecvError::Lagged(count)) => Some(FeedItem::Gap(count)),
            Err(RecvError::Closed) => None,
        }
    }
}
