//! Roots: the folders a host works in.
//!
//! Spec: MCP 2026-07-28, client/roots.

use crate::macros::object;

object! {
    /// A folder or file the host works in. Information, not access control.
    pub struct Root {
        required {
            /// A `file:` URI.
            uri: String = "uri",
        }
        optional {
            /// A name for people.
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
