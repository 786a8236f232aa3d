//! Tasks: calls that outlive their request.
//!
//! This module has the extension `io.modelcontextprotocol/tasks` of the modern era; [`legacy`] has the
//! experimental tasks of 2025-11-25, which are not compatible with it.
//!
//! Spec: the MCP tasks extension; MCP 2025-11-25, basic/utilities/tasks.

pub mod legacy;

use crate::errors::ErrorObject;
use crate::input::{InputRequests, InputResponses};
use crate::json::Json;
use crate::macros::{object, string_enum};
use crate::messages::ResultType;

/// The identifier of the extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

string_enum! {
    /// Where a task is.
    pub enum TaskStatus {
        /// It runs.
        Working = "working",
        /// It waits for answers.
        InputRequired = "input_required",
        /// It has a result.
        Completed = "completed",
        /// It ended in an error.
        Failed = "failed",
        /// It was ended.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// True if the task will not change any more.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

object! {
    /// Result of `tools/call` that goes on as a task.
    pub struct CreateTaskResult {
        expected {
            /// Always a task.
            result_type: ResultType = "resultType" or ResultType::Task,
        }
        required {
            /// Task id; not guessable.
            task_id: String = "taskId",
            /// Current status.
            status: TaskStatus = "status",
            /// ISO 8601.
            created_at: String = "createdAt",
            /// ISO 8601.
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
    /// Result of `tasks/get`, and params of `notifications/tasks`: a task with what its status brings.
    pub struct Task {
        required {
            /// Task id.
            task_id: String = "taskId",
            /// Current status.
            status: TaskStatus = "status",
            /// ISO 8601.
            created_at: String = "createdAt",
            /// ISO 8601.
            last_updated_at: String = "lastUpdatedAt",
            /// Retention after creation, in milliseconds; `None` means unlimited.
            ttl_ms: Option<u64> = "ttlMs",
        }
        optional {
            /// Complete, in the result of `tasks/get`; absent in the notification.
            result_type: ResultType = "resultType",
            /// Status message for people.
            status_message: String = "statusMessage",
            /// Suggested polling interval, in milliseconds.
            poll_interval_ms: u64 = "pollIntervalMs",
            /// What it waits for, when input is required.
            input_requests: InputRequests = "inputRequests",
            /// The result of the call, when completed.
            result: Json = "result",
            /// The error, when failed.
            error: ErrorObject = "error",
        }
        meta = meta;
        open = other;
        check by has_what_its_status_brings;
    }
}

impl Task {
    /// As the result of `tasks/get`, which says that it is complete; the notification does not.
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
            /// The task.
            task_id: String = "taskId",
        }
        meta = meta;
    }
}

object! {
    /// Params of `tasks/update`.
    pub struct UpdateTaskParams {
        required {
            /// The task.
            task_id: String = "taskId",
            /// Answers to some of its input requests.
            input_responses: InputResponses = "inputResponses",
        }
        meta = meta;
    }
}

object! {
    /// The `_meta` value that ties a message to a task; 2025-11-25.
    pub struct RelatedTask {
        required {
            /// The task.
            task_id: String = "taskId",
        }
    }
}
