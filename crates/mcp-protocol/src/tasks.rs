//! Tasks: calls that continue after their request was answered.
//!
//! This module has the extension `io.modelcontextprotocol/tasks` of the modern era. The module [`legacy`] has the
//! experimental tasks of 2025-11-25, which are not compatible with the extension.
//!
//! Spec: the MCP tasks extension; MCP 2025-11-25, basic/utilities/tasks.

pub mod legacy;

use crate::errors::ErrorObject;
use crate::input::{InputRequests, InputResponses};
use crate::json::Json;
use crate::macros::{object, string_enum};
use crate::messages::ResultType;

/// Identifier of the extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

string_enum! {
    /// Status of a task.
    pub enum TaskStatus {
        /// The task is running.
        Working = "working",
        /// The task waits for input responses.
        InputRequired = "input_required",
        /// The task completed with a result.
        Completed = "completed",
        /// The task failed with an error.
        Failed = "failed",
        /// The task was cancelled.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Returns true if the status is final.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

object! {
    /// Result of a `tools/call` that continues as a task.
    pub struct CreateTaskResult {
        expected {
            /// Result type; always `task`.
            result_type: ResultType = "resultType" or ResultType::Task,
        }
        required {
            /// Task id; not guessable.
            task_id: String = "taskId",
            /// Current status.
            status: TaskStatus = "status",
            /// Creation time, ISO 8601.
            created_at: String = "createdAt",
            /// Time of the last update, ISO 8601.
            last_updated_at: String = "lastUpdatedAt",
            /// Retention after creation, in milliseconds; `None` means unlimited.
            ttl_ms: Option<u64> = "ttlMs",
        }
        optional {
            /// Status message for people.
            status_message: String = "statusMessage",
            /// Suggested polling interval, in milliseconds.
            poll_interval_ms: u64 = "pollIntervalMs",
        }
        meta = meta;
        open = other;
        lower by crate::dialect::input::lower_create_task;
    }
}

object! {
    /// Result of `tasks/get` and params of `notifications/tasks`: a task, with the members that its status requires.
    pub struct Task {
        required {
            /// Task id.
            task_id: String = "taskId",
            /// Current status.
            status: TaskStatus = "status",
            /// Creation time, ISO 8601.
            created_at: String = "createdAt",
            /// Time of the last update, ISO 8601.
            last_updated_at: String = "lastUpdatedAt",
            /// Retention after creation, in milliseconds; `None` means unlimited.
            ttl_ms: Option<u64> = "ttlMs",
        }
        optional {
            /// `complete` in the result of `tasks/get`; absent in the notification.
            result_type: ResultType = "resultType",
            /// Status message for people.
            status_message: String = "statusMessage",
            /// Suggested polling interval, in milliseconds.
            poll_interval_ms: u64 = "pollIntervalMs",
            /// Input requests, if the status is `input_required`.
            input_requests: InputRequests = "inputRequests",
            /// Result of the call, if the status is `completed`.
            result: Json = "result",
            /// Error, if the status is `failed`.
            error: ErrorObject = "error",
        }
        meta = meta;
        open = other;
        check by has_what_its_status_brings;
    }
}

impl Task {
    /// Converts the task to the result of `tasks/get`, which has a result type.
    #[must_use]
    pub fn into_result(self) -> Self {
        self.result_type(ResultType::Complete)
    }
}

fn has_what_its_status_brings(task: &Task) -> Result<(), &'static str> {
    match task.status {
        TaskStatus::InputRequired if task.input_requests.is_none() => {
            Err("a task with status `input_required` must have `inputRequests`")
        }
        TaskStatus::Completed if task.result.is_none() => Err("a completed task must have a `result`"),
        TaskStatus::Failed if task.error.is_none() => Err("a failed task must have an `error`"),
        _ => Ok(()),
    }
}

object! {
    /// Params of `tasks/get` and `tasks/cancel`.
    pub struct TaskIdParams {
        required {
            /// Task id.
            task_id: String = "taskId",
        }
        meta = meta;
    }
}

object! {
    /// Params of `tasks/update`.
    pub struct UpdateTaskParams {
        required {
            /// Task id.
            task_id: String = "taskId",
            /// Responses to some or all of the task's input requests.
            input_responses: InputResponses = "inputResponses",
        }
        meta = meta;
    }
}

object! {
    /// The `_meta` value that relates a message to a task; 2025-11-25 only.
    pub struct RelatedTask {
        required {
            /// Task id.
            task_id: String = "taskId",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn status_of_a_task_needs_its_member() {
        for (status, member) in
            [("completed", "result"), ("failed", "error"), ("input_required", "inputRequests")]
        {
            let mut task = json!({
                "resultType": "task", "taskId": "t", "status": status, "createdAt": "2026-01-01T00:00:00Z",
                "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null,
            });
            let error = serde_json::from_value::<Task>(task.clone()).unwrap_err().to_string();
            assert!(error.contains(member), "{status}: {error}");
            task[member] = match member {
                "error" => json!({"code": -32603, "message": "failed"}),
                _ => json!({}),
            };
            serde_json::from_value::<Task>(task).unwrap();
        }
    }
}
