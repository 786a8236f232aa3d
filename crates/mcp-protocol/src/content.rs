//! Content blocks: what tools, prompts and models say.
//!
//! Spec: MCP 2026-07-28, server/tools and schema.

use crate::json::Json;
use crate::macros::{object, string_enum};
use crate::resources::{ResourceContents, ResourceLink};
use crate::union::union;

union! {
    /// A piece of content. What models say to each other is a [`SamplingBlock`](crate::sampling::SamplingBlock):
    /// that one can hold content, and content never holds itself, so reading it never nests.
    ///
    /// A version that lacks a kind gets the nearest it has: audio becomes a note for 2024-11-05, a resource
    /// link becomes its text before 2025-06-18.
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
        /// A picture.
        "image" => Image(ImageContent),
        /// Sound; since 2025-03-26.
        "audio" => Audio(AudioContent),
        /// A resource to be read if wanted; since 2025-06-18.
        "resource_link" => ResourceLink(Box<ResourceLink>),
        /// The contents of a resource.
        "resource" => Resource(Box<EmbeddedResource>),
    }
    lower by crate::dialect::content::instead;
}

impl ContentBlock {
    /// A text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// The text of a text block.
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
            /// Hints for display.
            annotations: Box<Annotations> = "annotations",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// A picture.
    pub struct ImageContent {
        tag "type" = "image";
        required {
            /// The bytes in Base64.
            data: String = "data",
            /// Their media type.
            mime_type: String = "mimeType",
        }
        optional {
            /// Hints for display.
            annotations: Box<Annotations> = "annotations",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// Sound.
    pub struct AudioContent {
        tag "type" = "audio";
        required {
            /// The bytes in Base64.
            data: String = "data",
            /// Their media type.
            mime_type: String = "mimeType",
        }
        optional {
            /// Hints for display.
            annotations: Box<Annotations> = "annotations",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// The contents of a resource, in place.
    pub struct EmbeddedResource {
        tag "type" = "resource";
        required {
            /// The contents.
            resource: ResourceContents = "resource",
        }
        optional {
            /// Hints for display.
            annotations: Box<Annotations> = "annotations",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// A model's wish to use a tool.
    pub struct ToolUseContent {
        tag "type" = "tool_use";
        required {
            /// Names this use; the result repeats it.
            id: String = "id",
            /// The tool.
            name: String = "name",
            /// The arguments, an object.
            input: Json = "input",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// What a tool said to a model.
    pub struct ToolResultContent {
        tag "type" = "tool_result";
        required {
            /// The use that this answers.
            tool_use_id: String = "toolUseId",
            /// What it said.
            content: Vec<ContentBlock> = "content",
        }
        optional {
            /// True if the tool failed.
            is_error: bool = "isError",
        }
        present {
            /// The result as data.
            structured_content: Json = "structuredContent",
        }
        meta = meta in part;
        open = other;
        lower by crate::dialect::tools::lower_tool_result_block;
    }
}

object! {
    /// Hints for display. Untrusted.
    pub struct Annotations {
        optional {
            /// Who it is for.
            audience: Vec<Role> = "audience",
            /// From 0, optional, to 1, required.
            priority: f64 = "priority",
            /// ISO 8601; since 2025-06-18.
            last_modified: String = "lastModified",
        }
        open = other;
    }
}

string_enum! {
    /// Who speaks, or who is spoken to.
    pub enum Role {
        /// The person.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}
