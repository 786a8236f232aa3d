//! Opening a connection: `initialize` of the legacy era, `server/discover` of the modern one.
//!
//! Spec: §2.1, §2.2.

use crate::capabilities::{ClientCapabilities, Implementation, ServerCapabilities};
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
            ttl_ms: u64 = "ttlMs" or 0,
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
    }
}

impl DiscoverResult {
    /// What the server calls itself: from `_meta`, or from the place where drafts had it.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        let named = self.meta.as_ref().and_then(|meta| meta.server_info.as_deref().cloned());
        named.or_else(|| self.other.get("serverInfo")?.to().ok())
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
