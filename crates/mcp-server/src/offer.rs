//! What a server offers: tools, resources and prompts, and the registry that holds them.

pub(crate) mod blocking;
pub(crate) mod changes;
pub(crate) mod completion;
#[cfg(all(feature = "files", unix))]
pub(crate) mod directory;
pub(crate) mod handler;
pub(crate) mod outcome;
pub(crate) mod prompt;
pub(crate) mod registry;
pub(crate) mod resource;
#[cfg(feature = "schemars")]
pub(crate) mod schema;
pub(crate) mod template;
pub(crate) mod tool;
