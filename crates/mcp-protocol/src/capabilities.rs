//! Client and server capabilities, and implementation information.
//!
//! Capability objects are open: unknown members are preserved. A member has the type `Json` if only its presence
//! matters.
//!
//! Spec: MCP 2026-07-28, basic/versioning and server/discover.

use crate::json::Json;
use crate::macros::{object, string_enum};
use crate::map::Map;
use crate::tasks::legacy::TasksCapability;

object! {
    /// Client capabilities.
    ///
    /// ```
    /// use mcp_protocol::capabilities::{ClientCapabilities, ElicitationCapability};
    ///
    /// let capabilities = ClientCapabilities::new().elicitation(ElicitationCapability::both());
    /// assert_eq!(serde_json::to_string(&capabilities)?, r#"{"elicitation":{"form":{},"url":{}}}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub struct ClientCapabilities {
        optional {
            /// Elicitation: requests for user input.
            elicitation: ElicitationCapability = "elicitation",
            /// Sampling: requests to the client's language model.
            sampling: SamplingCapability = "sampling",
            /// Roots.
            roots: RootsCapability = "roots",
            /// Experimental tasks; 2025-11-25 only.
            tasks: TasksCapability = "tasks",
            /// Experimental capabilities.
            experimental: Map<String, Json> = "experimental",
            /// Extensions by identifier, with settings.
            extensions: Map<String, Json> = "extensions",
        }
        open = other;
        lower by crate::dialect::elicitation::lower_client_capabilities;
    }
}

object! {
    /// Elicitation modes of a client. If neither member is present, only forms are supported.
    #[doc(alias = "elicitation")]
    pub struct ElicitationCapability {
        optional {
            /// Form mode.
            form: Json = "form",
            /// URL mode; since 2025-11-25.
            url: Json = "url",
        }
        open = other;
    }
}

impl ElicitationCapability {
    /// Creates a capability for forms and URLs.
    #[must_use]
    pub fn both() -> Self {
        Self::new().form(Json::object()).url(Json::object())
    }

    /// Returns true if form mode is supported, explicitly or because neither mode is declared.
    #[must_use]
    pub fn has_form(&self) -> bool {
        self.form.is_some() || self.url.is_none()
    }

    /// Returns true if URL mode is supported.
    #[must_use]
    pub fn has_url(&self) -> bool {
        self.url.is_some()
    }
}

object! {
    /// The sampling capability of a client.
    #[doc(alias = "sampling")]
    pub struct SamplingCapability {
        optional {
            /// Support for `includeContext`, which adds context from servers; deprecated.
            context: Json = "context",
            /// Support for tools in sampling; since 2025-11-25.
            tools: Json = "tools",
        }
        open = other;
    }
}

object! {
    /// The roots capability of a client.
    #[doc(alias = "roots")]
    pub struct RootsCapability {
        optional {
            /// True if the client sends `notifications/roots/list_changed`; legacy era.
            list_changed: bool = "listChanged",
        }
        open = other;
    }
}

object! {
    /// Server capabilities.
    pub struct ServerCapabilities {
        optional {
            /// Tools.
            tools: ListCapability = "tools",
            /// Resources.
            resources: ResourcesCapability = "resources",
            /// Prompts.
            prompts: ListCapability = "prompts",
            /// Argument completion; since 2025-03-26.
            completions: Json = "completions",
            /// Log messages.
            logging: Json = "logging",
            /// Experimental tasks; 2025-11-25 only.
            tasks: TasksCapability = "tasks",
            /// Experimental capabilities.
            experimental: Map<String, Json> = "experimental",
            /// Extensions by identifier, with settings.
            extensions: Map<String, Json> = "extensions",
        }
        open = other;
    }
}

object! {
    /// The tools capability or the prompts capability of a server.
    pub struct ListCapability {
        optional {
            /// True if the server sends list-changed notifications.
            list_changed: bool = "listChanged",
        }
        open = other;
    }
}

object! {
    /// The resources capability of a server.
    pub struct ResourcesCapability {
        optional {
            /// True if clients can subscribe to individual resources.
            subscribe: bool = "subscribe",
            /// True if the server sends list-changed notifications.
            list_changed: bool = "listChanged",
        }
        open = other;
    }
}

object! {
    /// Name and version of a program. Self-reported and unverified: display or log it, but do not base security
    /// decisions on it.
    #[doc(alias = "clientInfo")]
    #[doc(alias = "serverInfo")]
    pub struct Implementation {
        required {
            /// Programmatic name.
            name: String = "name",
            /// Version.
            version: String = "version",
        }
        optional {
            /// Display name.
            title: String = "title",
            /// Description.
            description: String = "description",
            /// Website.
            website_url: String = "websiteUrl",
            /// Icons.
            icons: Vec<Icon> = "icons",
        }
    }
}

object! {
    /// An icon of a server, tool, resource or prompt. Untrusted: accept only `https:` and `data:` URIs, send no
    /// credentials, and check the media type.
    pub struct Icon {
        required {
            /// An `https:` or `data:` URI.
            src: String = "src",
        }
        optional {
            /// Media type.
            mime_type: String = "mimeType",
            /// Sizes such as `48x48`, or `any`.
            sizes: Vec<String> = "sizes",
            /// Background for which the icon is intended.
            theme: IconTheme = "theme",
        }
    }
}

string_enum! {
    /// Background for which an icon is intended.
    pub enum IconTheme {
        /// Light background.
        Light = "light",
        /// Dark background.
        Dark = "dark",
    }
}
