//! A bounded stream of items, such as log messages and lines of stderr. Items that are not read in time are dropped and
//! counted.

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// The maximum number of items that are buffered for a slow reader.
const MAX_BUFFERED_ITEMS: usize = 256;

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

/// The sender of the items of feeds. It creates the buffer for the first reader, because the buffer takes 10 KiB, and most
/// connections have no reader.
#[derive(Debug)]
pub(crate) enum FeedSender<T> {
    /// There was no reader so far.
    Unread,
    Open(broadcast::Sender<T>),
    /// No more items are sent.
    Ended,
}

impl<T: Clone> FeedSender<T> {
    /// Returns a feed of the items that are sent from now on. It is empty if the sender has ended.
    pub(crate) fn feed(&mut self) -> Feed<T> {
        match self {
            Self::Unread => {
                let (sender, receiver) = broadcast::channel(MAX_BUFFERED_ITEMS);
                *self = Self::Open(sender);
                Feed(receiver)
            }
            Self::Open(sender) => Feed(sender.subscribe()),
            Self::Ended => Feed(broadcast::channel(1).1),
        }
    }

    pub(crate) fn has_readers(&self) -> bool {
        matches!(self, Self::Open(sender) if sender.receiver_count() > 0)
    }

    /// Sends an item to the readers, if there are any.
    pub(crate) fn send(&self, item: T) {
        if let Self::Open(sender) = self {
            // Fails if there are no readers, which is not an error.
            let _ = sender.send(item);
        }
    }

    /// Ends all feeds.
    pub(crate) fn end(&mut self) {
        *self = Self::Ended;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn items_are_sent_to_readers_from_the_first_on() {
        let mut sender = FeedSender::Unread;
        sender.send(1);
        assert!(!sender.has_readers());
        let mut feed = sender.feed();
        assert!(sender.has_readers());
        sender.send(2);
        let mut late = sender.feed();
        sender.send(3);
        sender.end();
        sender.send(4);
        for expected in [2, 3] {
            assert_eq!(feed.next().await, Some(FeedItem::Next(expected)));
        }
        assert_eq!(late.next().await, Some(FeedItem::Next(3)));
        assert_eq!((feed.next().await, late.next().await, sender.feed().next().await), (None, None, None));
    }
}
