//! Resources: lists, templates, contents, subscriptions of the legacy era.
//!
//! Spec: MCP 2026-07-28, server/resources.

use crate::capabilities::Icon;
use crate::content::Annotations;
use crate::input::InputResponses;
use crate::macros::object;
use crate::messages::{CacheScope, ResultType, TimeToLive};

object! {
    /// A resource in a list.
    pub struct Resource {
        required {
            /// What to read it by.
            uri: String = "uri",
            /// A name for programs.
            name: String = "name",
        }
        optional {
            /// A name for people.
            title: String = "title",
            /// What it is.
            description: String = "description",
            /// Its media type.
            mime_type: String = "mimeType",
            /// Its size in bytes.
            size: u64 = "size",
            /// Hints for display.
            annotations: Box<Annotations> = "annotations",
            /// Pictures of it.
            icons: Vec<Icon> = "icons",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// A resource that a tool or prompt points at. It need not be in the list.
    pub struct ResourceLink {
        tag "type" = "resource_link";
        required {
            /// What to read it by.
            uri: String = "uri",
            /// A name for programs.
            name: String = "name",
        }
        optional {
            /// A name for people.
            title: String = "title",
            /// What it is.
            description: String = "description",
            /// Its media type.
            mime_type: String = "mimeType",
            /// Its size in bytes.
            size: u64 = "size",
            /// Hints for display.
            annotations: Box<Annotations> = "annotations",
            /// Pictures of it.
            icons: Vec<Icon> = "icons",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// A family of resources, by an RFC 6570 template.
    pub struct ResourceTemplate {
        required {
            /// The template of their URIs.
            uri_template: String = "uriTemplate",
            /// A name for programs.
            name: String = "name",
        }
        optional {
            /// A name for people.
            title: String = "title",
            /// What they are.
            description: String = "description",
            /// The media type, if they all have the same.
            mime_type: String = "mimeType",
            /// Hints for display.
            annotations: Box<Annotations> = "annotations",
            /// Pictures of them.
            icons: Vec<Icon> = "icons",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// What a resource holds: text or bytes, one of the two.
    pub struct ResourceContents {
        required {
            /// The resource, or a part of it.
            uri: String = "uri",
        }
        optional {
            /// Its media type.
            mime_type: String = "mimeType",
            /// The text.
            text: String = "text",
            /// The bytes in Base64.
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
        _ => Err("contents have either `text` or `blob`"),
    }
}

object! {
    /// Result of `resources/list`.
    pub struct ListResourcesResult {
        expected {
            /// Always complete.
            result_type: ResultType = "resultType" or ResultType::Complete,
            /// How long it stays fresh, in milliseconds.
            ttl_ms: TimeToLive = "ttlMs" or TimeToLive(0),
            /// Who may share it.
            cache_scope: CacheScope = "cacheScope" or CacheScope::Private,
        }
        required {
            /// One page of resources.
            resources: Vec<Resource> = "resources",
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
    /// Result of `resources/templates/list`.
    pub struct ListResourceTemplatesResult {
        expected {
            /// Always complete.
            result_type: ResultType = "resultType" or ResultType::Complete,
            /// How long it stays fresh, in milliseconds.
            ttl_ms: TimeToLive = "ttlMs" or TimeToLive(0),
            /// Who may share it.
            cache_scope: CacheScope = "cacheScope" or CacheScope::Private,
        }
        required {
            /// One page of templates.
            resource_templates: Vec<ResourceTemplate> = "resourceTemplates",
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
    /// Params of `resources/read`.
    pub struct ReadResourceParams {
        required {
            /// What to read.
            uri: String = "uri",
        }
        optional {
            /// Answers to the server's input requests, on a second try.
            input_responses: InputResponses = "inputResponses",
            /// What the server wants back, on a second try.
            request_state: String = "requestState",
        }
        meta = meta;
    }
}

object! {
    /// Result of `resources/read`.
    pub struct ReadResourceResult {
        expected {
            /// Always complete.
            result_type: ResultType = "resultType" or ResultType::Complete,
            /// How long it stays fresh, in milliseconds.
            ttl_ms: TimeToLive = "ttlMs" or TimeToLive(0),
            /// Who may share it.
            cache_scope: CacheScope = "cacheScope" or CacheScope::Private,
        }
        required {
            /// The resource, in one part or several.
            contents: Vec<ResourceContents> = "contents",
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
    }
}

object! {
    /// Params of `resources/subscribe` and `resources/unsubscribe`; legacy.
    pub struct SubscribeParams {
        required {
            /// The resource.
            uri: String = "uri",
        }
        meta = meta;
    }
}

object! {
    /// Params of `notifications/resources/updated`.
    pub struct ResourceUpdatedParams {
        required {
            /// The resource, or a part of one that was asked about.
            uri: String = "uri",
        }
        meta = meta;
    }
}
