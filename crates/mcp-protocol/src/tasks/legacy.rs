//! The experimental tasks of 2025-11-25.
//!
//! Spec: §8.3.

use super::TaskStatus;
use crate::macros::object;

object! {
    /// Asks for a task: the `task` member of params.
    pub struct TaskParams {
        optional {
            /// How long it should be kept, in milliseconds.
            ttl: u64 = "ttl",
        }
    }
}

object! {
    /// A task. Result of `tasks/get` and `tasks/cancel`, params of `notifications/tasks/status`.
    pub struct Task {
        required {
            /// Names the task.
            task_id: String = "taskId",
            /// Where it is.
            status: TaskStatus = "status",
            /// ISO 8601.
            created_at: String = "createdAt",
            /// ISO 8601.
            last_updated_at: String = "lastUpdatedAt",
            /// How long it is kept after its creation, in milliseconds; `None` is without limit.
            ttl: Option<u64> = "ttl",
        }
        optional {
            /// Where it is, for people.
            status_message: String = "statusMessage",
            /// How often to ask, in milliseconds.
            poll_interval: u64 = "pollInterval",
        }
        meta = meta;
        open = other;
    }
}

object! {
    /// Result of a request that goes on as a task.
    pub struct CreateTaskResult {
        required {
            /// The task.
            task: Task = "task",
        }
        meta = meta;
        open = other;
    }
}

object! {
    /// Result of `tasks/list`.
    pub struct ListTasksResult {
        required {
            /// One page of tasks.
            tasks: Vec<Task> = "tasks",
        }
        optional {
            /// Where the next page begins; absent on the last one.
            next_cursor: String = "nextCursor",
        }
        meta = meta;
        open = other;
    }
}
