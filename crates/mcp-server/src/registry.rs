//! What a server offers, and how it changes while it serves.
//!
//! Readers take a snapshot, an immutable state behind one pointer; writers replace it and tell the connections
//! what changed. A list is serialized once per change and version, not once per request.

mod list;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use mcp_protocol::capabilities::{Implementation, ListCapability, ResourcesCapability, ServerCapabilities};
use mcp_protocol::messages::CacheScope;
use mcp_protocol::{Json, Map, ProtocolVersion};
use tokio::sync::broadcast;

pub(crate) use list::{Cursor, List, Listed, listed};

use crate::prompt::{PromptEntry, ServedPrompt};
use crate::resource::{ResourceEntry, ServedResource, ServedTemplate, TemplateEntry};
use crate::tool::{Tool, ToolEntry};

/// How many changes a slow connection may lag behind before it is told that everything changed.
const CHANGES_KEPT: usize = 64;

/// The tools, resources and prompts of a server. Cheap to clone; changes reach every client by themselves.
///
/// ```
/// use mcp_server::{McpServer, tool};
///
/// let server = McpServer::new(vec![]);
/// let registry = server.registry();
/// registry.add_tool(tool("late", || async { "better than never" }))?;
/// assert!(registry.remove_tool("late"));
/// # Ok::<(), mcp_server::InvalidDefinition>(())
/// ```
#[derive(Clone)]
pub struct Registry(Arc<Shared>);

struct Shared {
    state: RwLock<Arc<Snapshot>>,
    changes: broadcast::Sender<Change>,
}

/// A tool, resource or prompt that cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidDefinition(pub(crate) String);

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Tools,
    Resources,
    Prompts,
    Resource(Arc<str>),
}

/// How long clients may keep what they got, and who may share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheHint {
    pub(crate) ttl_ms: u64,
    pub(crate) scope: CacheScope,
}

impl Default for CacheHint {
    fn default() -> Self {
        Self { ttl_ms: 0, scope: CacheScope::Private }
    }
}

/// What does not change while serving.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) implementation: Implementation,
    pub(crate) instructions: Option<String>,
    pub(crate) versions: Vec<ProtocolVersion>,
    pub(crate) lists: CacheHint,
    pub(crate) page_size: usize,
}

/// The state of a registry at one moment.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) identity: Arc<Identity>,
    pub(crate) tools: List<ToolEntry>,
    pub(crate) resources: List<ResourceEntry>,
    pub(crate) templates: List<TemplateEntry>,
    pub(crate) prompts: List<PromptEntry>,
    /// What was wrong with things that were added before serving.
    pub(crate) problems: Vec<String>,
}

impl Registry {
    pub(crate) fn new(identity: Identity) -> Self {
        let snapshot = Snapshot {
            identity: Arc::new(identity),
            tools: List::default(),
            resources: List::default(),
            templates: List::default(),
            prompts: List::default(),
            problems: Vec::new(),
        };
        let (changes, _) = broadcast::channel(CHANGES_KEPT);
        Self(Arc::new(Shared { state: RwLock::new(Arc::new(snapshot)), changes }))
    }

    /// The state now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn changes(&self) -> broadcast::Receiver<Change> {
        self.0.changes.subscribe()
    }

    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut Snapshot) -> T) -> T {
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut state))
    }

    fn tell(&self, change: Change) {
        // Nobody may be listening.
        let _ = self.0.changes.send(change);
    }

    /// Adds a tool, or replaces the one of the same name.
    ///
    /// # Errors
    /// When its definition is not valid; nothing changes then.
    pub fn add_tool(&self, tool: Tool) -> Result<(), InvalidDefinition> {
        let entry = ToolEntry::new(tool).map_err(InvalidDefinition)?;
        self.update(|state| state.tools.put(entry));
        self.tell(Change::Tools);
        Ok(())
    }

    /// Removes a tool; calls that run go on. False if there was none of this name.
    pub fn remove_tool(&self, name: &str) -> bool {
        let removed = self.update(|state| state.tools.remove(name));
        if removed {
            self.tell(Change::Tools);
        }
        removed
    }

    /// Adds a resource, or replaces the one of the same URI.
    pub fn add_resource(&self, resource: ServedResource) {
        self.update(|state| state.resources.put(resource.0));
        self.tell(Change::Resources);
    }

    /// Removes a resource. False if there was none of this URI.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let removed = self.update(|state| state.resources.remove(uri));
        if removed {
            self.tell(Change::Resources);
        }
        removed
    }

    /// Adds a resource template, or replaces the same one.
    ///
    /// # Errors
    /// When it is no template that can be matched; nothing changes then.
    pub fn add_template(&self, template: ServedTemplate) -> Result<(), InvalidDefinition> {
        let entry = template.0.map_err(InvalidDefinition)?;
        self.update(|state| state.templates.put(entry));
        self.tell(Change::Resources);
        Ok(())
    }

    /// Removes a resource template. False if there was none.
    pub fn remove_template(&self, uri_template: &str) -> bool {
        let removed = self.update(|state| state.templates.remove(uri_template));
        if removed {
            self.tell(Change::Resources);
        }
        removed
    }

    /// Adds a prompt, or replaces the one of the same name.
    pub fn add_prompt(&self, prompt: ServedPrompt) {
        self.update(|state| state.prompts.put(prompt.0));
        self.tell(Change::Prompts);
    }

    /// Removes a prompt. False if there was none of this name.
    pub fn remove_prompt(&self, name: &str) -> bool {
        let removed = self.update(|state| state.prompts.remove(name));
        if removed {
            self.tell(Change::Prompts);
        }
        removed
    }

    /// Tells those who follow this resource that it changed.
    pub fn resource_updated(&self, uri: &str) {
        self.tell(Change::Resource(uri.into()));
    }

    /// The names of the tools, in the order in which clients see them.
    #[must_use]
    pub fn tool_names(&self) -> Vec<String> {
        self.snapshot().tools.iter().map(|tool| tool.definition.name.clone()).collect()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.snapshot();
        f.debug_struct("Registry")
            .field("tools", &state.tools.len())
            .field("resources", &state.resources.len())
            .field("templates", &state.templates.len())
            .field("prompts", &state.prompts.len())
            .finish()
    }
}

impl Snapshot {
    /// What the server can. Tools, resources and prompts may come later, so all three are always there.
    pub(crate) fn capabilities(&self) -> ServerCapabilities {
        let list = || ListCapability::new().list_changed(true);
        ServerCapabilities::new()
            .tools(list())
            .resources(ResourcesCapability::new().subscribe(true).list_changed(true))
            .prompts(list())
            .completions(Json::object())
            .logging(Json::object())
    }

    /// The resource with this URI, or the first template that fits, with the values of its variables.
    pub(crate) fn find_resource(&self, uri: &str) -> Option<Found> {
        if let Some(entry) = self.resources.get(uri) {
            return Some(Found::Resource(Arc::clone(entry)));
        }
        self.templates.iter().find_map(|entry| {
            let values = entry.template.matches(uri)?;
            Some(Found::Template(Arc::clone(entry), values))
        })
    }

    /// Names that are offered twice under one name, or cannot be offered.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut seen = Map::new();
        self.problems.iter().filter(|problem| seen.insert(problem.as_str(), ()).is_none()).cloned().collect()
    }
}

pub(crate) enum Found {
    Resource(Arc<ResourceEntry>),
    Template(Arc<TemplateEntry>, Vec<(String, String)>),
}
