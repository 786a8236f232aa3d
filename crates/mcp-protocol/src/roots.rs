//! Roots: the directories and files that a client works in.
//!
//! Spec: MCP 2026-07-28, client/roots.

use crate::macros::object;

object! {
    /// A directory or file that the client works in. Informational: it does not limit what the server can access.
    #[doc(alias = "roots")]
    pub struct Root {
        required {
            /// A `file:` URI.
            uri: String = "uri",
        }
        optional {
            /// Display name.
            name: String = "name",
        }
        meta = meta in part;
    }
}

object! {
    /// Result of `roots/list`.
    pub struct ListRootsResult {
        required {
            /// The roots.
            roots: Vec<Root> = "roots",
        }
        meta = meta;
        open = other;
    }
}
