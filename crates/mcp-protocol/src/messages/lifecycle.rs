//! Lifecycle messages: `initialize` of the legacy era, `server/discover` of the modern era.
//!
//! Spec: MCP 2025-11-25, basic/lifecycle; MCP 2026-07-28, server/discover.

use crate::capabilities::{ClientCapabilities, Implementation, ServerCapabilities};
use crate::dialect::{Lower, Lowering, Written, raise, serde_by_dialect};
use crate::macros::{object, string_enum};
use crate::version::ProtocolVersion;

object! {
    /// Params of `initialize`.
    #[doc(alias = "initialize")]
    #[doc(alias = "handshake")]
    pub struct InitializeParams {
        required {
            /// Requested version: the client's newest legacy version.
            protocol_version: ProtocolVersion = "protocolVersion",
            /// Client capabilities.
            capabilities: ClientCapabilities = "capabilities",
            /// Client name and version, self-reported.
            client_info: Implementation = "clientInfo",
        }
        meta = meta;
    }
}

object! {
    /// Result of `initialize`.
    pub struct InitializeResult {
        required {
            /// Negotiated version.
            protocol_version: ProtocolVersion = "protocolVersion",
            /// Server capabilities.
            capabilities: ServerCapabilities = "capabilities",
            /// Server name and version, self-reported.
            server_info: Implementation = "serverInfo",
        }
        optional {
            /// Usage instructions for the language model.
            instructions: String = "instructions",
        }
        meta = meta;
        open = other;
    }
}

object! {
    /// Result of `server/discover`.
    #[doc(alias = "discover")]
    pub struct DiscoverResult {
        expected {
            /// Result type; always `complete`.
            result_type: ResultType = "resultType" or ResultType::Complete,
            /// Time to live in a cache, in milliseconds.
            ttl_ms: TimeToLive = "ttlMs" or TimeToLive(0),
            /// Cache scope: public or private.
            cache_scope: CacheScope = "cacheScope" or CacheScope::Private,
        }
        required {
            /// All versions supported by the server, newest first.
            supported_versions: Vec<ProtocolVersion> = "supportedVersions",
            /// Server capabilities.
            capabilities: ServerCapabilities = "capabilities",
        }
        optional {
            /// Usage instructions for the language model.
            instructions: String = "instructions",
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
    }
}

impl DiscoverResult {
    /// Returns the server's name and version from `_meta`, or from the member `serverInfo`, which drafts of 2026-07-28
    /// used.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        let named = self.meta.as_ref().and_then(|meta| meta.server_info.as_deref().cloned());
        named.or_else(|| self.other.get("serverInfo")?.raise().ok())
    }
}

object! {
    /// Params of methods without parameters: `ping`, `server/discover`, `roots/list` and list-changed notifications.
    #[doc(alias = "ping")]
    pub struct EmptyParams {
        meta = meta;
    }
}

object! {
    /// Params of the list methods.
    #[doc(alias = "pagination")]
    pub struct PageParams {
        optional {
            /// Cursor from the previous page; absent for the first page.
            cursor: String = "cursor",
        }
        meta = meta;
    }
}

object! {
    /// A result without members, such as that of `ping`.
    #[doc(alias = "ping")]
    pub struct EmptyResult {
        expected {
            /// Result type; always `complete`.
            result_type: ResultType = "resultType" or ResultType::Complete,
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
    }
}

/// Time to live of a result, in milliseconds. A negative number is read as 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeToLive(pub u64);

impl From<u64> for TimeToLive {
    fn from(milliseconds: u64) -> Self {
        Self(milliseconds)
    }
}

serde_by_dialect!(TimeToLive);

impl Lower for TimeToLive {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        self.0.lower(cx, out)
    }
}

raise! {
    TimeToLive, Self(0), |from| from.number("an integer", |text| match (text.parse(), text.parse::<i64>()) {
        (Ok(milliseconds), _) => Some(Self(milliseconds)),
        (Err(_), Ok(_)) => Some(Self(0)),
        (Err(_), Err(_)) => None,
    });
}

/// A result that completes its request; its result type must be `complete`.
pub(crate) trait TerminalResult {
    fn result_type(&self) -> Option<&ResultType>;
}

macro_rules! finals {
    ($($result:ty),* $(,)?) => { $(
        impl TerminalResult for $result {
            fn result_type(&self) -> Option<&ResultType> {
                self.result_type.as_ref()
            }
        }
    )* };
}

finals! {
    DiscoverResult, EmptyResult, crate::tools::ListToolsResult, crate::tools::CallToolResult,
    crate::prompts::ListPromptsResult, crate::prompts::GetPromptResult, crate::resources::ListResourcesResult,
    crate::resources::ListResourceTemplatesResult, crate::resources::ReadResourceResult,
    crate::completion::CompleteResult, crate::subscriptions::ListenResult,
}

/// Rejects a result whose type is not `complete`.
pub(crate) fn is_complete<T: TerminalResult>(result: &T) -> Result<(), &'static str> {
    match result.result_type() {
        None | Some(ResultType::Complete) => Ok(()),
        Some(_) => Err("`resultType` must be \"complete\""),
    }
}

string_enum! {
    /// Type of a result. Absent means `complete`.
    pub enum ResultType {
        /// The request is complete.
        Complete = "complete",
        /// The server needs input; the client retries with the responses (multi round-trip request).
        #[doc(alias = "MRTR")]
        InputRequired = "input_required",
        /// The request continues as a task.
        Task = "task",
    }
}

string_enum! {
    /// Scope in which a result may be cached.
    pub enum CacheScope {
        /// Shared caches may store the result.
        Public = "public",
        /// Only the requesting client may store the result.
        Private = "private",
    }
}
