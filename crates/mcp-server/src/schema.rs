//! JSON Schemas from types.

use mcp_protocol::Json;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// The schema of a type, subschemas inlined for clients that do not follow `$ref`.
pub(crate) fn of<T: JsonSchema>() -> Json {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The dialect is the default one, and the name of a Rust type helps no model.
    schema.remove("$schema");
    schema.remove("title");
    Json::of(&schema).unwrap_or_default()
}
