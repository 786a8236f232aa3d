//! Log messages from server to client.
//!
//! Spec: §5.4.

use crate::json::Json;
use crate::macros::{object, string_enum};

string_enum! {
    /// How grave a log message is, mildest first.
    pub enum LogLevel {
        /// For the one who writes the server.
        Debug = "debug",
        /// All is well.
        Info = "info",
        /// Normal, but worth knowing.
        Notice = "notice",
        /// May become an error.
        Warning = "warning",
        /// Something failed.
        Error = "error",
        /// A part of the server failed.
        Critical = "critical",
        /// Someone must act at once.
        Alert = "alert",
        /// The server cannot be used.
        Emergency = "emergency",
    }
}

object! {
    /// Params of `notifications/message`.
    pub struct LogMessageParams {
        required {
            /// How grave it is.
            level: LogLevel = "level",
            /// What it says: any JSON. Never a secret.
            data: Json = "data",
        }
        optional {
            /// The part of the server that says it.
            logger: String = "logger",
        }
        meta = meta;
    }
}

object! {
    /// Params of `logging/setLevel`; legacy.
    pub struct SetLevelParams {
        required {
            /// The mildest level to be told of.
            level: LogLevel = "level",
        }
        meta = meta;
    }
}
