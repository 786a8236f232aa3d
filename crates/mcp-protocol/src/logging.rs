//! Log messages from server to client.
//!
//! Spec: MCP 2026-07-28, server/utilities/logging.

use crate::json::Json;
use crate::macros::{object, string_enum};

string_enum! {
    /// Severity of a log message. The variants are listed from least to most severe.
    pub enum LogLevel {
        /// Debugging information.
        Debug = "debug",
        /// Informational message.
        Info = "info",
        /// Normal but significant event.
        Notice = "notice",
        /// Warning.
        Warning = "warning",
        /// Error.
        Error = "error",
        /// Failure of a component.
        Critical = "critical",
        /// Immediate action is required.
        Alert = "alert",
        /// The server is unusable.
        Emergency = "emergency",
    }
}

impl LogLevel {
    /// Returns true if this level is at least as severe as `least`. False if either level is unknown.
    ///
    /// ```
    /// use mcp_protocol::logging::LogLevel;
    ///
    /// assert!(LogLevel::Error.is_at_least(&LogLevel::Warning));
    /// assert!(!LogLevel::from("odd").is_at_least(&LogLevel::Debug));
    /// ```
    #[must_use]
    pub fn is_at_least(&self, least: &Self) -> bool {
        self.severity().zip(least.severity()).is_some_and(|(this, least)| this >= least)
    }

    fn severity(&self) -> Option<u8> {
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
            /// Severity.
            level: LogLevel = "level",
            /// Message, any JSON. Must not contain secrets.
            data: Json = "data",
        }
        optional {
            /// Name of the logger.
            logger: String = "logger",
        }
        meta = meta;
    }
}

object! {
    /// Params of `logging/setLevel`; legacy.
    pub struct SetLevelParams {
        required {
            /// Minimum severity of messages to send.
            level: LogLevel = "level",
        }
        meta = meta;
    }
}
