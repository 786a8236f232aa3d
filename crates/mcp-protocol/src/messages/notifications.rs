//! Cancellation and progress, the two notifications that belong to a request in flight.
//!
//! Spec: MCP 2026-07-28, basic/patterns/cancellation and basic/patterns/progress.

use super::{Id, ProgressToken};
use crate::macros::object;

object! {
    /// Params of `notifications/cancelled`.
    pub struct CancelledParams {
        required {
            /// The request that is no longer wanted.
            request_id: Id = "requestId",
        }
        optional {
            /// Why, for people and logs.
            reason: String = "reason",
        }
        meta = meta;
    }
}

object! {
    /// Params of `notifications/progress`.
    pub struct ProgressParams {
        required {
            /// The token the request carried.
            progress_token: ProgressToken = "progressToken",
            /// How far it is; grows with every notification.
            progress: f64 = "progress",
        }
        optional {
            /// How far it will be in the end, if that is known.
            total: f64 = "total",
            /// What is being done, for people.
            message: String = "message",
        }
        meta = meta;
    }
}
