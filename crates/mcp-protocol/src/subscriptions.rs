//! `subscriptions/listen`: the notification stream of the modern era.
//!
//! Spec: MCP 2026-07-28, basic/patterns/subscriptions.

use crate::macros::object;
use crate::messages::ResultType;

object! {
    /// Filter for the notifications of a stream. A server sends only the notifications that were requested.
    pub struct SubscriptionFilter {
        optional {
            /// Changes of the tool list.
            tools_list_changed: bool = "toolsListChanged",
            /// Changes of the prompt list.
            prompts_list_changed: bool = "promptsListChanged",
            /// Changes of the resource list.
            resources_list_changed: bool = "resourcesListChanged",
            /// Updates of individual resources, by URI.
            resource_subscriptions: Vec<String> = "resourceSubscriptions",
            /// Status changes of tasks, by id; tasks extension.
            task_ids: Vec<String> = "taskIds",
        }
        open = other;
    }
}

object! {
    /// Params of `subscriptions/listen`.
    #[doc(alias = "subscription")]
    pub struct ListenParams {
        required {
            /// Requested notifications.
            notifications: SubscriptionFilter = "notifications",
        }
        meta = meta;
    }
}

object! {
    /// Params of `notifications/subscriptions/acknowledged`, the first message of the stream.
    pub struct AcknowledgedParams {
        required {
            /// Notifications that the server will send.
            notifications: SubscriptionFilter = "notifications",
        }
        meta = meta;
    }
}

object! {
    /// Result of `subscriptions/listen`, which the server sends when it closes the stream. The `_meta` of the result
    /// contains the subscription id.
    pub struct ListenResult {
        expected {
            /// Result type; always `complete`.
            result_type: ResultType = "resultType" or ResultType::Complete,
        }
        meta = meta;
        open = other;
        check by names_its_subscription;
    }
}

fn names_its_subscription(result: &ListenResult) -> Result<(), &'static str> {
    crate::messages::is_complete(result)?;
    match result.meta.as_ref().and_then(|meta| meta.subscription_id.as_ref()) {
        Some(_) => Ok(()),
        None => Err("`_meta` must have `io.modelcontextprotocol/subscriptionId`"),
    }
}
