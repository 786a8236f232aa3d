//! Log messages from server to client.
//!
//! Spec: MCP 2026-07-28, server/utilities/logging.

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

impl LogLevel {
    /// True if this is as grave as `least` or graver. An unknown level is neither.
    ///
    /// ```
    /// use mcp_protocol::logging::LogLevel;
    ///
    /// assert!(LogLevel::Error.is_at_least(&LogLevel::Warning));
    /// assert!(!LogLevel::from("odd").is_at_least(&LogLevel::Debug));
    /// ```
    #[must_use]
    pub fn is_at_least(&self, least: &Self) -> bool {
        self.gravity().zip(least.gravity()).is_some_and(|(this, least)| this >= least)
    }

    fn gravity(&self) -> Option<u8> {
        Some(match self {
            Self::Debug => 0,
            Self::Info => 1,
            Self::Notice => 2,
            Self::Warning => 3,
            Self::Error => 4,
            Self::Critical => 5,
            Self::Alert => 6,
            Self::Emergency => 7,
            Self::Other(_) => return None,
        })
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
