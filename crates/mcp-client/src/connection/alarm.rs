//! Timers of a driver.

use std::time::{Duration, Instant};

/// Waits until the instant, or forever if there is none.
pub(crate) async fn until(instant: Option<tokio::time::Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// The timer for the next deadline. It is reset only if it would fire too late; firing too early is harmless.
pub(crate) struct Alarm {
    sleep: std::pin::Pin<Box<tokio::time::Sleep>>,
    pub(crate) at: Option<Instant>,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Self { sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), at: None }
    }

    pub(crate) fn set(&mut self, due: Option<Instant>) {
        if let Some(due) = due
            && self.at.is_none_or(|at| due < at)
        {
            self.at = Some(due);
            self.sleep.as_mut().reset(tokio::time::Instant::from_std(due));
        }
    }

    /// Waits until the timer fires, or forever if it is not set.
    ///
    /// # Cancellation
    /// Cancel safe.
    pub(crate) async fn elapsed(&mut self) {
        if self.at.is_none() {
            return std::future::pending().await;
        }
        self.sleep.as_mut().await;
        self.at = None;
    }
}
