//! JSON Schemas, derived from types.

use mcp_protocol::Json;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// Returns the schema of a type, with subschemas inlined for clients that do not resolve `$ref`.
pub(crate) fn of<T: JsonSchema>() -> Json {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // `$schema` names the default dialect of JSON Schema, and the name of a Rust type does not help a model.
    schema.remove("$schema");
    schema.remove("title");
    // The doc comment of the type is for people who read the code; the description of a tool is set on the tool.
    schema.remove("description");
    Json::of(&schema).unwrap_or_default()
}
