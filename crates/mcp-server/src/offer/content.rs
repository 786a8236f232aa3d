//! Images and sound as results of tools.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mcp_protocol::content::{AudioContent, ContentBlock, EmbeddedResource, ImageContent};
use mcp_protocol::resources::{ResourceContents, ResourceLink};
use mcp_protocol::tools::CallToolResult;

use crate::error::ToolError;
use crate::offer::outcome::IntoOutcome;

/// An image: its bytes and their media type. A tool can return it directly, or as one of several content blocks.
///
/// ```
/// use mcp_protocol::content::ContentBlock;
/// use mcp_server::{Image, tool};
///
/// async fn chart() -> Image {
///     Image::png([0x89, b'P', b'N', b'G'])
/// }
/// async fn chart_with_text() -> Vec<ContentBlock> {
///     vec!["Sales by month:".into(), chart().await.into()]
/// }
/// let (chart, with_text) = (tool("chart", chart), tool("chart_with_text", chart_with_text));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image(Media);

/// Sound: its bytes and their media type. A tool can return it directly, or as one of several content blocks.
///
/// ```
/// use mcp_server::{Audio, tool};
///
/// let bell = tool("bell", || async { Audio::wav(*b"RIFF") });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audio(Media);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Media {
    bytes: Vec<u8>,
    mime_type: Cow<'static, str>,
}

/// Defines the constructors of a kind of media, and its conversions into a result.
macro_rules! media {
    ($type:ident as $content:ident in $block:ident: $($name:ident $mime_type:literal)*) => {
        impl $type {
            #[doc = concat!("Creates an `", stringify!($type), "` from bytes of this media type.")]
            #[must_use]
            pub fn new(mime_type: impl Into<Cow<'static, str>>, bytes: impl Into<Vec<u8>>) -> Self {
                Self(Media { bytes: bytes.into(), mime_type: mime_type.into() })
            }

            $(
                #[doc = concat!("Creates an `", stringify!($type), "` from bytes of type `", $mime_type, "`.")]
                #[must_use]
                pub fn $name(bytes: impl Into<Vec<u8>>) -> Self {
                    Self::new($mime_type, bytes)
                }
            )*
        }

        impl From<$type> for ContentBlock {
            fn from($type(Media { bytes, mime_type }): $type) -> Self {
                Self::$block($content::new(STANDARD.encode(bytes), mime_type))
            }
        }
    };
}

media! { Image as ImageContent in Image: png "image/png" jpeg "image/jpeg" gif "image/gif" webp "image/webp" }
media! { Audio as AudioContent in Audio: wav "audio/wav" mp3 "audio/mpeg" ogg "audio/ogg" }

/// Implements `IntoOutcome` for types that convert into one content block.
macro_rules! one_block {
    ($($type:ty)*) => { $(
        impl IntoOutcome for $type {
            fn into_outcome(self) -> Result<CallToolResult, ToolError> {
                ContentBlock::from(self).into_outcome()
            }
        }
    )* };
}

one_block! { Image Audio ResourceLink EmbeddedResource }

/// Embeds the contents of a resource in the result.
impl IntoOutcome for ResourceContents {
    fn into_outcome(self) -> Result<CallToolResult, ToolError> {
        EmbeddedResource::new(self).into_outcome()
    }
}
