//! Tools, resources and prompts, and the registry that holds them.

pub(crate) mod blocking;
pub(crate) mod changes;
pub(crate) mod completion;
pub(crate) mod content;
#[cfg(all(feature = "files", unix))]
pub(crate) mod directory;
#[cfg(feature = "schemars")]
pub(crate) mod form;
pub(crate) mod handler;
pub(crate) mod outcome;
pub(crate) mod prompt;
pub(crate) mod prompt_args;
pub(crate) mod registry;
pub(crate) mod resource;
#[cfg(feature = "schemars")]
pub(crate) mod schema;
pub(crate) mod shared_state;
pub(crate) mod template;
pub(crate) mod tool;
pub(crate) mod tool_spec;
