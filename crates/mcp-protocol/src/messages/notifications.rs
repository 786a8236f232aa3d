//! Cancellation and progress, the two notifications about a request in flight.
//!
//! Spec: MCP 2026-07-28, basic/patterns/cancellation and basic/patterns/progress.

use super::{Id, ProgressToken};
use crate::macros::object;

object! {
    /// Params of `notifications/cancelled`.
    #[doc(alias = "cancellation")]
    pub struct CancelledParams {
        required {
            /// Id of the cancelled request.
            request_id: Id = "requestId",
        }
        optional {
            /// Reason, for people and logs.
            reason: String = "reason",
        }
        meta = meta;
    }
}

object! {
    /// Params of `notifications/progress`.
    #[doc(alias = "progress")]
    pub struct ProgressParams {
        required {
            /// Progress token of the request.
            progress_token: ProgressToken = "progressToken",
            /// Current progress; increases with every notification.
            progress: f64 = "progress",
        }
        optional {
            /// Expected final progress, if known.
            total: f64 = "total",
            /// Description of the current step, for people.
            message: String = "message",
        }
        meta = meta;
    }
}
