//! Content blocks of tool results, prompts and sampling messages.
//!
//! Spec: MCP 2026-07-28, server/tools and schema.

use crate::json::Json;
use crate::macros::{object, string_enum};
use crate::resources::{ResourceContents, ResourceLink};
use crate::union::union;

union! {
    /// A content block. Sampling messages use [`SamplingBlock`](crate::sampling::SamplingBlock), which can contain
    /// content blocks. A content block never contains another content block, so parsing does not recurse.
    ///
    /// If the peer's protocol version lacks a kind of block, a text block is sent instead: for audio in 2024-11-05, and
    /// for resource links and unknown blocks before 2025-06-18.
    ///
    /// ```
    /// use mcp_protocol::content::ContentBlock;
    ///
    /// let block: ContentBlock = serde_json::from_str(r#"{"type":"text","text":"hi"}"#)?;
    /// assert_eq!(block.as_text(), Some("hi"));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub enum ContentBlock by "type" {
        /// Text.
        "text" => Text(TextContent),
        /// An image.
        "image" => Image(ImageContent),
        /// Audio; since 2025-03-26.
        "audio" => Audio(AudioContent),
        /// A link to a resource; since 2025-06-18.
        "resource_link" => ResourceLink(Box<ResourceLink>),
        /// Embedded contents of a resource.
        "resource" => Resource(Box<EmbeddedResource>),
    }
    lower by crate::dialect::content::instead;
}

impl ContentBlock {
    /// Creates a text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// Returns the text of a text block, or `None` for another kind of block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }
}

impl From<&str> for ContentBlock {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for ContentBlock {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<ResourceLink> for ContentBlock {
    fn from(link: ResourceLink) -> Self {
        Self::ResourceLink(Box::new(link))
    }
}

impl From<EmbeddedResource> for ContentBlock {
    fn from(resource: EmbeddedResource) -> Self {
        Self::Resource(Box::new(resource))
    }
}

object! {
    /// Text.
    pub struct TextContent {
        tag "type" = "text";
        required {
            /// The text.
            text: String = "text",
        }
        optional {
            /// Display hints. Untrusted.
            annotations: Box<Annotations> = "annotations",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// An image.
    pub struct ImageContent {
        tag "type" = "image";
        required {
            /// Bytes, Base64-encoded.
            data: String = "data",
            /// Media type.
            mime_type: String = "mimeType",
        }
        optional {
            /// Display hints. Untrusted.
            annotations: Box<Annotations> = "annotations",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// Audio.
    pub struct AudioContent {
        tag "type" = "audio";
        required {
            /// Bytes, Base64-encoded.
            data: String = "data",
            /// Media type.
            mime_type: String = "mimeType",
        }
        optional {
            /// Display hints. Untrusted.
            annotations: Box<Annotations> = "annotations",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// The embedded contents of a resource.
    pub struct EmbeddedResource {
        tag "type" = "resource";
        required {
            /// Contents.
            resource: ResourceContents = "resource",
        }
        optional {
            /// Display hints. Untrusted.
            annotations: Box<Annotations> = "annotations",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// A model's request to use a tool.
    #[doc(alias = "tool_use")]
    pub struct ToolUseContent {
        tag "type" = "tool_use";
        required {
            /// Id of this tool use. The result repeats it.
            id: String = "id",
            /// Name of the tool.
            name: String = "name",
            /// Arguments, a JSON object.
            input: Json = "input",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// The result of a tool use, for the model.
    #[doc(alias = "tool_result")]
    pub struct ToolResultContent {
        tag "type" = "tool_result";
        required {
            /// Id of the tool use.
            tool_use_id: String = "toolUseId",
            /// Content blocks.
            content: Vec<ContentBlock> = "content",
        }
        optional {
            /// True if the tool failed.
            is_error: bool = "isError",
        }
        present {
            /// Structured result.
            structured_content: Json = "structuredContent",
        }
        meta = meta in part;
        open = other;
        lower by crate::dialect::tools::lower_tool_result_block;
    }
}

object! {
    /// Display hints. Untrusted.
    pub struct Annotations {
        optional {
            /// Intended audience.
            audience: Vec<Role> = "audience",
            /// Importance, from 0 (optional) to 1 (required).
            priority: f64 = "priority",
            /// Time of the last modification, ISO 8601; since 2025-06-18.
            last_modified: String = "lastModified",
        }
        open = other;
    }
}

string_enum! {
    /// Speaker or audience of a message.
    pub enum Role {
        /// The user.
        User = "user",
        /// The language model.
        Assistant = "assistant",
    }
}
