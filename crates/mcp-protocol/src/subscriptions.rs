//! `subscriptions/listen`: the stream of changes of the modern era.
//!
//! Spec: MCP 2026-07-28, basic/patterns/subscriptions.

use crate::macros::object;
use crate::messages::ResultType;

object! {
    /// The changes to be told of. A server sends nothing that was not asked for.
    pub struct SubscriptionFilter {
        optional {
            /// The list of tools.
            tools_list_changed: bool = "toolsListChanged",
            /// The list of prompts.
            prompts_list_changed: bool = "promptsListChanged",
            /// The list of resources.
            resources_list_changed: bool = "resourcesListChanged",
            /// Single resources, by URI.
            resource_subscriptions: Vec<String> = "resourceSubscriptions",
            /// Tasks, by id; tasks extension.
            task_ids: Vec<String> = "taskIds",
        }
        open = other;
    }
}

object! {
    /// Params of `subscriptions/listen`.
    pub struct ListenParams {
        required {
            /// What to be told of.
            notifications: SubscriptionFilter = "notifications",
        }
        meta = meta;
    }
}

object! {
    /// Params of `notifications/subscriptions/acknowledged`, the first message of the stream.
    pub struct AcknowledgedParams {
        required {
            /// What will be told.
            notifications: SubscriptionFilter = "notifications",
        }
        meta = meta;
    }
}

object! {
    /// Result of `subscriptions/listen`: the server ends the stream. Its `_meta` names the subscription.
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
