//! Resources: lists, templates, contents, and subscriptions of the legacy era.
//!
//! Spec: MCP 2026-07-28, server/resources.

use crate::capabilities::Icon;
use crate::content::Annotations;
use crate::dialect::Dialect;
use crate::errors::BodyError;
use crate::input::InputResponses;
use crate::lists::{SkippedItem, raise_each};
use crate::macros::object;
use crate::messages::{Body, CacheScope, ResultType, TimeToLive};

object! {
    /// A resource in a list.
    pub struct Resource {
        required {
            /// URI with which a client reads the resource.
            uri: String = "uri",
            /// Programmatic name.
            name: String = "name",
        }
        optional {
            /// Display name.
            title: String = "title",
            /// Description.
            description: String = "description",
            /// Media type.
            mime_type: String = "mimeType",
            /// Size in bytes.
            size: u64 = "size",
            /// Display hints. Untrusted.
            annotations: Box<Annotations> = "annotations",
            /// Icons.
            icons: Vec<Icon> = "icons",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// A link to a resource in the result of a tool or prompt. The resource need not be listed.
    pub struct ResourceLink {
        tag "type" = "resource_link";
        required {
            /// URI with which a client reads the resource.
            uri: String = "uri",
            /// Programmatic name.
            name: String = "name",
        }
        optional {
            /// Display name.
            title: String = "title",
            /// Description.
            description: String = "description",
            /// Media type.
            mime_type: String = "mimeType",
            /// Size in bytes.
            size: u64 = "size",
            /// Display hints. Untrusted.
            annotations: Box<Annotations> = "annotations",
            /// Icons.
            icons: Vec<Icon> = "icons",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// A template for resource URIs (RFC 6570).
    pub struct ResourceTemplate {
        required {
            /// URI template.
            uri_template: String = "uriTemplate",
            /// Programmatic name.
            name: String = "name",
        }
        optional {
            /// Display name.
            title: String = "title",
            /// Description.
            description: String = "description",
            /// Media type, if all matching resources have the same type.
            mime_type: String = "mimeType",
            /// Display hints. Untrusted.
            annotations: Box<Annotations> = "annotations",
            /// Icons.
            icons: Vec<Icon> = "icons",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// The contents of a resource: either text or binary data.
    pub struct ResourceContents {
        required {
            /// URI of the resource or of a part of it.
            uri: String = "uri",
        }
        optional {
            /// Media type.
            mime_type: String = "mimeType",
            /// Text.
            text: String = "text",
            /// Bytes, Base64-encoded.
            blob: String = "blob",
        }
        meta = meta in part;
        open = other;
        check by text_or_blob;
    }
}

fn text_or_blob(contents: &ResourceContents) -> Result<(), &'static str> {
    match (&contents.text, &contents.blob) {
        (Some(_), None) | (None, Some(_)) => Ok(()),
        _ => Err("resource contents must have either `text` or `blob`"),
    }
}

object! {
    /// Result of `resources/list`.
    pub struct ListResourcesResult {
        expected {
            /// Result type; always `complete`.
            result_type: ResultType = "resultType" or ResultType::Complete,
            /// Time to live in a cache, in milliseconds.
            ttl_ms: TimeToLive = "ttlMs" or TimeToLive(0),
            /// Cache scope: public or private.
            cache_scope: CacheScope = "cacheScope" or CacheScope::Private,
        }
        required {
            /// One page of resources.
            resources: Vec<Resource> = "resources",
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

impl ListResourcesResult {
    /// Reads the first `limit` resources of a page. Resources that cannot be read are skipped and reported.
    /// [`Body::count`] returns the number of resources on the page.
    ///
    /// # Errors
    /// Fails if the page itself cannot be read.
    pub fn raise_each(
        dialect: Dialect,
        page: &Body<'_>,
        limit: usize,
    ) -> Result<(Self, Vec<SkippedItem>), BodyError> {
        raise_each(dialect, page, "resources", limit, |page| &mut page.resources)
    }
}

object! {
    /// Result of `resources/templates/list`.
    pub struct ListResourceTemplatesResult {
        expected {
            /// Result type; always `complete`.
            result_type: ResultType = "resultType" or ResultType::Complete,
            /// Time to live in a cache, in milliseconds.
            ttl_ms: TimeToLive = "ttlMs" or TimeToLive(0),
            /// Cache scope: public or private.
            cache_scope: CacheScope = "cacheScope" or CacheScope::Private,
        }
        required {
            /// One page of templates.
            resource_templates: Vec<ResourceTemplate> = "resourceTemplates",
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

impl ListResourceTemplatesResult {
    /// Reads the first `limit` templates of a page. Templates that cannot be read are skipped and reported.
    /// [`Body::count`] returns the number of templates on the page.
    ///
    /// # Errors
    /// Fails if the page itself cannot be read.
    pub fn raise_each(
        dialect: Dialect,
        page: &Body<'_>,
        limit: usize,
    ) -> Result<(Self, Vec<SkippedItem>), BodyError> {
        raise_each(dialect, page, "resourceTemplates", limit, |page| &mut page.resource_templates)
    }
}

object! {
    /// Params of `resources/read`.
    pub struct ReadResourceParams {
        required {
            /// URI of the resource.
            uri: String = "uri",
        }
        optional {
            /// Responses to the server's input requests, on a retry.
            input_responses: InputResponses = "inputResponses",
            /// The server's `requestState`, returned unchanged on a retry.
            request_state: String = "requestState",
        }
        meta = meta;
    }
}

object! {
    /// Result of `resources/read`.
    pub struct ReadResourceResult {
        expected {
            /// Result type; always `complete`.
            result_type: ResultType = "resultType" or ResultType::Complete,
            /// Time to live in a cache, in milliseconds.
            ttl_ms: TimeToLive = "ttlMs" or TimeToLive(0),
            /// Cache scope: public or private.
            cache_scope: CacheScope = "cacheScope" or CacheScope::Private,
        }
        required {
            /// Contents of the resource, in one part or several.
            contents: Vec<ResourceContents> = "contents",
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
    }
}

impl ReadResourceResult {
    /// Returns the text of all parts, joined by newlines. Binary parts are left out.
    ///
    /// ```
    /// use mcp_protocol::resources::{ReadResourceResult, ResourceContents};
    ///
    /// let read = ReadResourceResult::new([
    ///     ResourceContents::new("note://welcome").text("Welcome!"),
    ///     ResourceContents::new("note://logo").blob("aGk="),
    /// ]);
    /// assert_eq!(read.text(), "Welcome!");
    /// ```
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.contents.iter().filter_map(|part| part.text.as_deref()).collect();
        texts.join("\n")
    }
}

object! {
    /// Params of `resources/subscribe` and `resources/unsubscribe`; legacy.
    #[doc(alias = "subscription")]
    pub struct SubscribeParams {
        required {
            /// URI of the resource.
            uri: String = "uri",
        }
        meta = meta;
    }
}

object! {
    /// Params of `notifications/resources/updated`.
    pub struct ResourceUpdatedParams {
        required {
            /// URI of the resource, or of a part of a subscribed resource.
            uri: String = "uri",
        }
        meta = meta;
    }
}
