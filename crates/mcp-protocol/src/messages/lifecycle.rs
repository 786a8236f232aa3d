//! Opening a connection: `initialize` of the legacy era, `server/discover` of the modern one.
//!
//! Spec: MCP 2025-11-25, basic/lifecycle; MCP 2026-07-28, server/discover.

use crate::capabilities::{ClientCapabilities, Implementation, ServerCapabilities};
use crate::dialect::{Lower, Lowering, Written, raise, serde_by_dialect};
use crate::macros::{object, string_enum};
use crate::version::ProtocolVersion;

object! {
    /// Params of `initialize`.
    pub struct InitializeParams {
        required {
            /// The version the client would like, its newest legacy one.
            protocol_version: ProtocolVersion = "protocolVersion",
            /// What the client can.
            capabilities: ClientCapabilities = "capabilities",
            /// What the client calls itself.
            client_info: Implementation = "clientInfo",
        }
        meta = meta;
    }
}

object! {
    /// Result of `initialize`.
    pub struct InitializeResult {
        required {
            /// The version that holds from now on.
            protocol_version: ProtocolVersion = "protocolVersion",
            /// What the server can.
            capabilities: ServerCapabilities = "capabilities",
            /// What the server calls itself.
            server_info: Implementation = "serverInfo",
        }
        optional {
            /// How to use the server, for a language model.
            instructions: String = "instructions",
        }
        meta = meta;
        open = other;
    }
}

object! {
    /// Result of `server/discover`.
    pub struct DiscoverResult {
        expected {
            /// Always complete.
            result_type: ResultType = "resultType" or ResultType::Complete,
            /// How long it stays fresh, in milliseconds.
            ttl_ms: TimeToLive = "ttlMs" or TimeToLive(0),
            /// Who may share it.
            cache_scope: CacheScope = "cacheScope" or CacheScope::Private,
        }
        required {
            /// Every version the server speaks, newest first.
            supported_versions: Vec<ProtocolVersion> = "supportedVersions",
            /// What the server can.
            capabilities: ServerCapabilities = "capabilities",
        }
        optional {
            /// How to use the server, for a language model.
            instructions: String = "instructions",
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
    }
}

impl DiscoverResult {
    /// What the server calls itself: from `_meta`, or from the place where drafts had it.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        let named = self.meta.as_ref().and_then(|meta| meta.server_info.as_deref().cloned());
        named.or_else(|| self.other.get("serverInfo")?.raise().ok())
    }
}

object! {
    /// Params of a request that takes none of its own: `ping`, `server/discover`, `roots/list`, and of
    /// notifications that only announce.
    pub struct EmptyParams {
        meta = meta;
    }
}

object! {
    /// Params of the list methods.
    pub struct PageParams {
        optional {
            /// Where to go on; from the page before.
            cursor: String = "cursor",
        }
        meta = meta;
    }
}

object! {
    /// A result that only says "done".
    pub struct EmptyResult {
        expected {
            /// Always complete.
            result_type: ResultType = "resultType" or ResultType::Complete,
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
    }
}

/// How long a result stays fresh, in milliseconds. A negative number is read as none at all.
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
    TimeToLive, Self(0), |from| from.number("a whole number", |text| match (text.parse(), text.parse::<i64>()) {
        (Ok(milliseconds), _) => Some(Self(milliseconds)),
        (Err(_), Ok(_)) => Some(Self(0)),
        (Err(_), Err(_)) => None,
    });
}

/// A result that ends its request, and therefore can be of no other type than complete.
pub(crate) trait Final {
    fn result_type(&self) -> Option<&ResultType>;
}

macro_rules! finals {
    ($($result:ty),* $(,)?) => { $(
        impl Final for $result {
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

/// Refuses a result that says it is something else than complete.
pub(crate) fn is_complete<T: Final>(result: &T) -> Result<(), &'static str> {
    match result.result_type() {
        None | Some(ResultType::Complete) => Ok(()),
        Some(_) => Err("`resultType` must be \"complete\""),
    }
}

string_enum! {
    /// What kind of result this is. Absent, it is complete.
    pub enum ResultType {
        /// The request is done.
        Complete = "complete",
        /// The server needs input and a second try.
        InputRequired = "input_required",
        /// The request goes on as a task.
        Task = "task",
    }
}

string_enum! {
    /// Who may keep a result and hand it to others.
    pub enum CacheScope {
        /// Anyone.
        Public = "public",
        /// Only the one who asked.
        Private = "private",
    }
}
