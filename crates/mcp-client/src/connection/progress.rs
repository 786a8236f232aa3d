//! Progress of a call, and what of it waits for its reader.

use std::collections::VecDeque;

use mcp_protocol::messages::ProgressParams;

/// Progress that may wait for its reader.
const PROGRESS: usize = 16;

/// The most bytes of what a step of progress says.
const MESSAGE: usize = 16 << 10;

/// One step of progress of a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// How far it is.
    pub progress: f64,
    /// How far it will be in the end, if that is known.
    pub total: Option<f64>,
    /// What is being done, for people. Untrusted.
    pub message: Option<String>,
    /// How many steps before this one were left out because they were not read in time.
    pub gap: u64,
}

/// Progress that waits for its reader: the newest steps, and how many were left out.
#[derive(Debug, Default)]
pub(crate) struct ProgressQueue {
    steps: VecDeque<Progress>,
}

impl From<ProgressParams> for Progress {
    fn from(params: ProgressParams) -> Self {
        let ProgressParams { progress, total, mut message, .. } = params;
        if let Some(message) = message.as_mut().filter(|message| message.len() > MESSAGE) {
            let end = (0..=MESSAGE).rev().find(|at| message.is_char_boundary(*at));
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
        // The newest are kept.
        if self.steps.len() == PROGRESS
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
