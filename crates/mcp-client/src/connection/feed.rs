//! What a server says that nobody has to hear: kept for a while, and lost with a word about it.

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// What a server says from now on, one after the other. A slow reader loses some of it, and is told how many; nobody waits
/// for it.
#[derive(Debug)]
pub struct Feed<T>(broadcast::Receiver<T>);

/// What comes next in a [`Feed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedItem<T> {
    /// What was said.
    Next(T),
    /// So many were lost because they were not read in time.
    Gap(u64),
}

impl<T: Clone> Feed<T> {
    pub(crate) fn new(receiver: broadcast::Receiver<T>) -> Self {
        Self(receiver)
    }

    /// What comes next; `None` once the server is gone.
    ///
    /// # Cancellation
    /// Safe: nothing is lost.
    pub async fn next(&mut self) -> Option<FeedItem<T>> {
        match self.0.recv().await {
            Ok(item) => Some(FeedItem::Next(item)),
            Err(RecvError::Lagged(count)) => Some(FeedItem::Gap(count)),
            Err(RecvError::Closed) => None,
        }
    }
}
