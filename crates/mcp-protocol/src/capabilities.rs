//! What the two sides can, and what they call themselves.
//!
//! Capability objects are open: unknown members are kept. `Json` stands where only presence counts.
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
            /// Asking the person in front of the host.
            elicitation: ElicitationCapability = "elicitation",
            /// Asking the host's language model.
            sampling: SamplingCapability = "sampling",
            /// Telling the host's roots.
            roots: RootsCapability = "roots",
            /// Experimental tasks; 2025-11-25.
            tasks: TasksCapability = "tasks",
            /// What is being tried out.
            experimental: Map<String, Json> = "experimental",
            /// Extensions by identifier, with their settings.
            extensions: Map<String, Json> = "extensions",
        }
        open = other;
        lower by crate::dialect::elicitation::lower_client_capabilities;
    }
}

object! {
    /// How a client can ask its person. Neither member means forms only.
    pub struct ElicitationCapability {
        optional {
            /// Forms.
            form: Json = "form",
            /// Pages to open; since 2025-11-25.
            url: Json = "url",
        }
        open = other;
    }
}

impl ElicitationCapability {
    /// Forms and URLs.
    #[must_use]
    pub fn both() -> Self {
        Self::new().form(Json::object()).url(Json::object())
    }

    /// True if forms can be shown.
    #[must_use]
    pub fn has_form(&self) -> bool {
        self.form.is_some() || self.url.is_none()
    }

    /// True if URLs can be opened.
    #[must_use]
    pub fn has_url(&self) -> bool {
        self.url.is_some()
    }
}

object! {
    /// How a client's language model can be asked.
    pub struct SamplingCapability {
        optional {
            /// With context of servers; deprecated.
            context: Json = "context",
            /// With tools; since 2025-11-25.
            tools: Json = "tools",
        }
        open = other;
    }
}

object! {
    /// Whether a client tells of changed roots.
    pub struct RootsCapability {
        optional {
            /// True if it does; legacy era.
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
            /// Completion of arguments; since 2025-03-26.
            completions: Json = "completions",
            /// Log messages.
            logging: Json = "logging",
            /// Experimental tasks; 2025-11-25.
            tasks: TasksCapability = "tasks",
            /// What is being tried out.
            experimental: Map<String, Json> = "experimental",
            /// Extensions by identifier, with their settings.
            extensions: Map<String, Json> = "extensions",
        }
        open = other;
    }
}

object! {
    /// A list that a server offers.
    pub struct ListCapability {
        optional {
            /// True if the server tells when it changes.
            list_changed: bool = "listChanged",
        }
        open = other;
    }
}

object! {
    /// The resources that a server offers.
    pub struct ResourcesCapability {
        optional {
            /// True if changes of single resources can be followed.
            subscribe: bool = "subscribe",
            /// True if the server tells when the list changes.
            list_changed: bool = "listChanged",
        }
        open = other;
    }
}

object! {
    /// What a program calls itself. Self-reported: for display and logs, never for decisions.
    pub struct Implementation {
        required {
            /// Programmatic name.
            name: String = "name",
            /// Its version.
            version: String = "version",
        }
        optional {
            /// Display name.
            title: String = "title",
            /// Description.
            description: String = "description",
            /// Where to read more.
            website_url: String = "websiteUrl",
            /// Icons.
            icons: Vec<Icon> = "icons",
        }
    }
}

object! {
    /// A picture of a server, tool, resource or prompt. Untrusted: fetch it only over HTTPS or `data:`, without credentials, and check its type.
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
            /// The background it is made for.
            theme: IconTheme = "theme",
        }
    }
}

string_enum! {
    /// The background an icon is made for.
    pub enum IconTheme {
        /// A light one.
        Light = "light",
        /// A dark one.
        Dark = "dark",
    }
}
