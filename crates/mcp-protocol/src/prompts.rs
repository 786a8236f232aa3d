//! Prompts: lists and filled-in messages.
//!
//! Spec: MCP 2026-07-28, server/prompts.

use crate::capabilities::Icon;
use crate::content::{ContentBlock, Role};
use crate::input::InputResponses;
use crate::macros::object;
use crate::map::Map;
use crate::messages::{CacheScope, ResultType, TimeToLive};

object! {
    /// The definition of a prompt.
    pub struct Prompt {
        required {
            /// What to get it by.
            name: String = "name",
        }
        optional {
            /// A name for people.
            title: String = "title",
            /// What it is for.
            description: String = "description",
            /// What it takes.
            arguments: Vec<PromptArgument> = "arguments",
            /// Pictures of it.
            icons: Vec<Icon> = "icons",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// An argument of a prompt.
    pub struct PromptArgument {
        required {
            /// Its name.
            name: String = "name",
        }
        optional {
            /// A name for people.
            title: String = "title",
            /// What it is.
            description: String = "description",
            /// True if it cannot be left out.
            required: bool = "required",
        }
    }
}

object! {
    /// Result of `prompts/list`.
    pub struct ListPromptsResult {
        expected {
            /// Always complete.
            result_type: ResultType = "resultType" or ResultType::Complete,
            /// How long it stays fresh, in milliseconds.
            ttl_ms: TimeToLive = "ttlMs" or TimeToLive(0),
            /// Who may share it.
            cache_scope: CacheScope = "cacheScope" or CacheScope::Private,
        }
        required {
            /// One page of prompts.
            prompts: Vec<Prompt> = "prompts",
        }
        optional {
            /// Where the next page begins; absent on the last one. An empty string is a cursor too.
            next_cursor: String = "nextCursor",
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
    }
}

object! {
    /// Params of `prompts/get`.
    pub struct GetPromptParams {
        required {
            /// The prompt.
            name: String = "name",
        }
        optional {
            /// Its arguments.
            arguments: Map<String, String> = "arguments",
            /// Answers to the server's input requests, on a second try.
            input_responses: InputResponses = "inputResponses",
            /// What the server wants back, on a second try.
            request_state: String = "requestState",
        }
        meta = meta;
    }
}

object! {
    /// Result of `prompts/get`.
    pub struct GetPromptResult {
        expected {
            /// Always complete.
            result_type: ResultType = "resultType" or ResultType::Complete,
        }
        required {
            /// The messages, filled in.
            messages: Vec<PromptMessage> = "messages",
        }
        optional {
            /// What they are for.
            description: String = "description",
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
    }
}

object! {
    /// One message of a prompt.
    pub struct PromptMessage {
        required {
            /// Who speaks.
            role: Role = "role",
            /// What is said.
            content: ContentBlock = "content",
        }
    }
}
