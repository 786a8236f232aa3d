//! What the programs share.

/// The schema of every tool in the lists.
pub const SCHEMA: &str = r#"{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]}"#;
