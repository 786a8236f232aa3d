//! Prompts: lists and rendered messages.
//!
//! Spec: MCP 2026-07-28, server/prompts.

use crate::capabilities::Icon;
use crate::content::{ContentBlock, Role};
use crate::dialect::Dialect;
use crate::errors::BodyError;
use crate::input::InputResponses;
use crate::lists::{SkippedItem, raise_each};
use crate::macros::object;
use crate::map::Map;
use crate::messages::{Body, CacheScope, ResultType, TimeToLive};

object! {
    /// The definition of a prompt.
    pub struct Prompt {
        required {
            /// Name with which a client gets the prompt.
            name: String = "name",
        }
        optional {
            /// Display name.
            title: String = "title",
            /// Description.
            description: String = "description",
            /// Accepted arguments.
            arguments: Vec<PromptArgument> = "arguments",
            /// Icons.
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
            /// Name.
            name: String = "name",
        }
        optional {
            /// Display name.
            title: String = "title",
            /// Description.
            description: String = "description",
            /// True if the argument is required.
            required: bool = "required",
        }
    }
}

object! {
    /// Result of `prompts/list`.
    pub struct ListPromptsResult {
        expected {
            /// Result type; always `complete`.
            result_type: ResultType = "resultType" or ResultType::Complete,
            /// Time to live in a cache, in milliseconds.
            ttl_ms: TimeToLive = "ttlMs" or TimeToLive(0),
            /// Cache scope: public or private.
            cache_scope: CacheScope = "cacheScope" or CacheScope::Private,
        }
        required {
            /// One page of prompts.
            prompts: Vec<Prompt> = "prompts",
        }
        optional {
            /// Cursor of the next page; absent on the last page. An empty string is a valid cursor.
            next_cursor: String = "nextCursor",
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
    }
}

impl ListPromptsResult {
    /// Reads the first `limit` prompts of a page. Prompts that cannot be read are skipped and reported. [`Body::count`]
    /// returns the number of prompts on the page.
    ///
    /// # Errors
    /// Fails if the page itself cannot be read.
    pub fn raise_each(
        dialect: Dialect,
        page: &Body<'_>,
        limit: usize,
    ) -> Result<(Self, Vec<SkippedItem>), BodyError> {
        raise_each(dialect, page, "prompts", limit, |page| &mut page.prompts)
    }
}

object! {
    /// Params of `prompts/get`.
    pub struct GetPromptParams {
        required {
            /// Name of the prompt.
            name: String = "name",
        }
        optional {
            /// Arguments.
            arguments: Map<String, String> = "arguments",
            /// Responses to the server's input requests, on a retry.
            input_responses: InputResponses = "inputResponses",
            /// The server's `requestState`, returned unchanged on a retry.
            request_state: String = "requestState",
        }
        meta = meta;
    }
}

object! {
    /// Result of `prompts/get`.
    pub struct GetPromptResult {
        expected {
            /// Result type; always `complete`.
            result_type: ResultType = "resultType" or ResultType::Complete,
        }
        required {
            /// Rendered messages.
            messages: Vec<PromptMessage> = "messages",
        }
        optional {
            /// Description.
            description: String = "description",
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
    }
}

impl GetPromptResult {
    /// Returns the text of all messages, joined by newlines. Images and other content are left out.
    ///
    /// ```
    /// use mcp_protocol::content::{ContentBlock, Role};
    /// use mcp_protocol::prompts::{GetPromptResult, PromptMessage};
    ///
    /// let got = GetPromptResult::new([PromptMessage::new(Role::User, ContentBlock::text("Review this."))]);
    /// assert_eq!(got.text(), "Review this.");
    /// ```
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.messages.iter().filter_map(|message| message.content.as_text()).collect();
        texts.join("\n")
    }
}

object! {
    /// One message of a prompt.
    pub struct PromptMessage {
        required {
            /// Role of the speaker.
            role: Role = "role",
            /// Content.
            content: ContentBlock = "content",
        }
    }
}

impl From<&str> for Prompt {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}
