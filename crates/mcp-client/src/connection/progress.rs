//! Progress of a call, and the bounded queue in which it waits for its reader.

use std::collections::VecDeque;

use mcp_protocol::messages::ProgressParams;

/// The maximum number of steps of progress that wait for their reader.
const MAX_QUEUED_STEPS: usize = 16;

/// The maximum number of bytes of the message of a step. The rest is cut.
const MAX_MESSAGE_BYTES: usize = 16 << 10;

/// One step of progress of a call.
#[doc(alias = "notifications/progress")]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// The progress so far.
    pub progress: f64,
    /// The progress at which the call is complete, if that is known.
    pub total: Option<f64>,
    /// A description of the current step, for people. Untrusted.
    pub message: Option<String>,
    /// The number of steps before this one that were dropped because they were not read in time.
    pub gap: u64,
}

/// Progress that waits for its reader: the newest steps, and the number of steps that were dropped.
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
        // The oldest step is dropped, because the newest say the most.
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
