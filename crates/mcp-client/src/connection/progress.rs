//! Progress notifications of a call, and the bounded queue in which they wait for their reader.

use std::collections::VecDeque;

use mcp_protocol::messages::ProgressParams;

/// The maximum number of progress notifications that wait for their reader.
const MAX_QUEUED_STEPS: usize = 16;

/// The maximum number of bytes of the message of a progress notification. Longer messages are cut.
const MAX_MESSAGE_BYTES: usize = 16 << 10;

/// One progress notification of a call.
#[doc(alias = "notifications/progress")]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// The progress so far, in a unit that the server chooses. It should increase with every notification.
    pub progress: f64,
    /// The value of `progress` at which the call is complete, if the server knows it.
    pub total: Option<f64>,
    /// A description of the current progress, for people. At most 16 KiB. Untrusted.
    pub message: Option<String>,
    /// The number of notifications directly before this one that were dropped because they were not read in time.
    pub gap: u64,
}

/// Progress notifications that wait for their reader: the newest ones, with the number of those that were dropped.
#[derive(Debug, Default)]
pub(crate) struct ProgressQueue {
    steps: VecDeque<Progress>,
}

impl From<ProgressParams> for Progress {
    fn from(params: ProgressParams) -> Self {
        let ProgressParams { progress, total, mut message, .. } = params;
        if let Some(message) = message.as_mut().filter(|message| message.len() > MAX_MESSAGE_BYTES) {
            let end = (0..=MAX_MESSAGE_BYTES).rev().find(|at| message.is_char_boundary(*at));
            message.truncate(end.unwrap_or(0));
        }
        Self { progress, total, message, gap: 0 }
    }
}

impl ProgressQueue {
    pub(crate) fn pop(&mut self) -> Option<Progress> {
        self.steps.pop_front()
    }

    pub(crate) fn push(&mut self, mut step: Progress) {
        // Drops the oldest notification, because the newest ones are the most useful.
        if self.steps.len() == MAX_QUEUED_STEPS
            && let Some(oldest) = self.steps.pop_front()
        {
            let gap = oldest.gap + 1;
            match self.steps.front_mut() {
                Some(next) => next.gap += gap,
                None => step.gap += gap,
            }
        }
        self.steps.push_back(step);
    }
}
