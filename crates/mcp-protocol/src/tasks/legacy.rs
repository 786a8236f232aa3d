//! The experimental tasks of 2025-11-25.
//!
//! Spec: MCP 2025-11-25, basic/utilities/tasks.

use super::TaskStatus;
use crate::json::Json;
use crate::macros::object;
use crate::map::Map;
use crate::messages::Method;

object! {
    /// Task capabilities of a client or server.
    pub struct TasksCapability {
        optional {
            /// Present if `tasks/list` is supported.
            list: Json = "list",
            /// Present if `tasks/cancel` is supported.
            cancel: Json = "cancel",
            /// Requests that can run as tasks, by the two parts of their method: `tools/call` is
            /// `{"tools":{"call":{}}}`.
            requests: Map<String, Map<String, Json>> = "requests",
        }
        open = other;
    }
}

impl TasksCapability {
    /// Returns true if a request with this method can run as a task.
    ///
    /// ```
    /// use mcp_protocol::messages::Method;
    /// use mcp_protocol::tasks::legacy::TasksCapability;
    ///
    /// let tasks: TasksCapability = serde_json::from_str(r#"{"requests":{"tools":{"call":{}}}}"#)?;
    /// assert!(tasks.covers(&Method::ToolsCall));
    /// assert!(!tasks.covers(&Method::CreateMessage));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn covers(&self, method: &Method) -> bool {
        let Some((area, operation)) = method.as_str().split_once('/') else { return false };
        self.requests
            .iter()
            .filter_map(|areas| areas.get(area))
            .any(|operations| operations.contains_key(operation))
    }
}

object! {
    /// The `task` member of params, which requests execution as a task.
    pub struct TaskParams {
        optional {
            /// Requested retention, in milliseconds.
            ttl: u64 = "ttl",
        }
    }
}

object! {
    /// A task. Result of `tasks/get` and `tasks/cancel`, params of `notifications/tasks/status`.
    pub struct LegacyTask {
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
            ttl: Option<u64> = "ttl",
        }
        optional {
            /// Status message for people.
            status_message: String = "statusMessage",
            /// Suggested polling interval, in milliseconds.
            poll_interval: u64 = "pollInterval",
        }
        meta = meta;
        open = other;
    }
}

object! {
    /// Result of a request that continues as a task.
    pub struct CreateLegacyTaskResult {
        required {
            /// The task.
            task: LegacyTask = "task",
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
            tasks: Vec<LegacyTask> = "tasks",
        }
        optional {
            /// Cursor of the next page; absent on the last page.
            next_cursor: String = "nextCursor",
        }
        meta = meta;
        open = other;
    }
}
