//! The registry of tools, resources and prompts, which can change while the server runs.
//!
//! Readers take a snapshot: an immutable state behind one pointer. Writers replace the snapshot and notify the
//! connections. A page of a list is serialized once per change and protocol version, not once per request.

mod list;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use mcp_protocol::capabilities::{Implementation, ListCapability, ResourcesCapability, ServerCapabilities};
use mcp_protocol::messages::CacheScope;
use mcp_protocol::{Json, Map, ProtocolVersion};
use tokio::sync::broadcast;

pub(crate) use list::{Cursor, EntryList, ListEntry, list_entry};

use crate::offer::prompt::{PromptEntry, ServedPrompt};
use crate::offer::resource::{
    ResourceEntry, ServedResource, ServedTemplate, TemplateEntry, check_resource_uri,
};
use crate::offer::tool::{Tool, ToolEntry};

/// The number of changes by which a connection may lag behind. If it lags further, the client is notified that
/// everything changed.
const MAX_PENDING_CHANGES: usize = 64;

/// The tools, resources and prompts of a server. Cheap to clone.
///
/// A change of a list is announced to the clients (`notifications/tools/list_changed` and similar notifications): to
/// all legacy clients, and to the modern clients that subscribed to it (`subscriptions/listen`).
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
pub struct Registry(Arc<RegistryState>);

/// The current snapshot, and the channel that announces its changes.
struct RegistryState {
    current: RwLock<Arc<Snapshot>>,
    changes: broadcast::Sender<RegistryChange>,
}

/// The error for a tool, resource or resource template whose definition is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidDefinition(pub(crate) String);

/// A change of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RegistryChange {
    Tools,
    Resources,
    Prompts,
    /// The contents of the resource with this URI.
    Resource(Arc<str>),
}

/// The `ttlMs` and `cacheScope` of a result.
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

/// The settings of a server. They do not change while the server runs.
#[derive(Clone, Debug)]
pub(crate) struct ServerSettings {
    pub(crate) implementation: Implementation,
    pub(crate) instructions: Option<String>,
    pub(crate) versions: Vec<ProtocolVersion>,
    /// The cache hint of the lists.
    pub(crate) lists: CacheHint,
    pub(crate) page_size: usize,
}

/// The state of a registry at one moment.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) settings: Arc<ServerSettings>,
    pub(crate) tools: EntryList<ToolEntry>,
    pub(crate) resources: EntryList<ResourceEntry>,
    pub(crate) templates: EntryList<TemplateEntry>,
    pub(crate) prompts: EntryList<PromptEntry>,
    /// The problems of invalid definitions that were added before the server started.
    pub(crate) problems: Vec<String>,
}

impl Registry {
    pub(crate) fn new(settings: ServerSettings) -> Self {
        let snapshot = Snapshot {
            settings: Arc::new(settings),
            tools: EntryList::default(),
            resources: EntryList::default(),
            templates: EntryList::default(),
            prompts: EntryList::default(),
            problems: Vec::new(),
        };
        let (changes, _) = broadcast::channel(MAX_PENDING_CHANGES);
        Self(Arc::new(RegistryState { current: RwLock::new(Arc::new(snapshot)), changes }))
    }

    /// Returns the current state.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn changes(&self) -> broadcast::Receiver<RegistryChange> {
        self.0.changes.subscribe()
    }

    /// Changes the state, without a notification.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut Snapshot) -> T) -> T {
        let mut state = self.0.current.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut state))
    }

    fn notify(&self, change: RegistryChange) {
        // Fails if there is no connection.
        let _ = self.0.changes.send(change);
    }

    /// Adds a tool, or replaces the tool of the same name.
    ///
    /// # Errors
    /// Fails if the definition is not valid. The registry is then unchanged.
    pub fn add_tool(&self, tool: Tool) -> Result<(), InvalidDefinition> {
        let entry = ToolEntry::new(tool).map_err(InvalidDefinition)?;
        self.update(|state| state.tools.put(entry));
        self.notify(RegistryChange::Tools);
        Ok(())
    }

    /// Removes a tool; calls in flight continue. Returns false if there is no tool with this name.
    pub fn remove_tool(&self, name: &str) -> bool {
        let removed = self.update(|state| state.tools.remove(name));
        if removed {
            self.notify(RegistryChange::Tools);
        }
        removed
    }

    /// Adds a resource, or replaces the resource of the same URI.
    ///
    /// # Errors
    /// Fails if the URI is not valid. The registry is then unchanged.
    pub fn add_resource(&self, resource: ServedResource) -> Result<(), InvalidDefinition> {
        check_resource_uri(&resource.0.definition.uri).map_err(InvalidDefinition)?;
        self.update(|state| state.resources.put(resource.0));
        self.notify(RegistryChange::Resources);
        Ok(())
    }

    /// Removes a resource. Returns false if there is no resource with this URI.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let removed = self.update(|state| state.resources.remove(uri));
        if removed {
            self.notify(RegistryChange::Resources);
        }
        removed
    }

    /// Adds a resource template, or replaces the resource template with the same URI template.
    ///
    /// # Errors
    /// Fails if the URI template is not supported. The registry is then unchanged.
    pub fn add_template(&self, template: ServedTemplate) -> Result<(), InvalidDefinition> {
        let entry = template.0.map_err(InvalidDefinition)?;
        self.update(|state| state.templates.put(entry));
        self.notify(RegistryChange::Resources);
        Ok(())
    }

    /// Removes a resource template. Returns false if there is none with this URI template.
    pub fn remove_template(&self, uri_template: &str) -> bool {
        let removed = self.update(|state| state.templates.remove(uri_template));
        if removed {
            self.notify(RegistryChange::Resources);
        }
        removed
    }

    /// Adds a prompt, or replaces the prompt of the same name.
    ///
    /// # Errors
    /// Fails if the argument type cannot be read from text. The registry is then unchanged.
    pub fn add_prompt(&self, prompt: ServedPrompt) -> Result<(), InvalidDefinition> {
        prompt.0.check().map_err(InvalidDefinition)?;
        self.update(|state| state.prompts.put(prompt.0));
        self.notify(RegistryChange::Prompts);
        Ok(())
    }

    /// Removes a prompt. Returns false if there is no prompt with this name.
    pub fn remove_prompt(&self, name: &str) -> bool {
        let removed = self.update(|state| state.prompts.remove(name));
        if removed {
            self.notify(RegistryChange::Prompts);
        }
        removed
    }

    /// Notifies the clients that subscribed to a resource that its contents changed
    /// (`notifications/resources/updated`).
    #[doc(alias = "notifications/resources/updated")]
    #[doc(alias = "subscription")]
    pub fn resource_updated(&self, uri: &str) {
        self.notify(RegistryChange::Resource(uri.into()));
    }

    /// Returns the names of the tools, in the order of `tools/list`.
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
    /// Returns the server capabilities. Tools, resources and prompts can be added later, so all three are always
    /// declared.
    pub(crate) fn capabilities(&self) -> ServerCapabilities {
        let list = || ListCapability::new().list_changed(true);
        ServerCapabilities::new()
            .tools(list())
            .resources(ResourcesCapability::new().subscribe(true).list_changed(true))
            .prompts(list())
            .completions(Json::object())
            .logging(Json::object())
    }

    /// Returns the resource with this URI. If there is none, returns the first template that matches the URI, with the
    /// values of its variables.
    pub(crate) fn find_resource(&self, uri: &str) -> Option<ResourceMatch> {
        if let Some(entry) = self.resources.get(uri) {
            return Some(ResourceMatch::Resource(Arc::clone(entry)));
        }
        self.templates.iter().find_map(|entry| {
            let values = entry.template.matches(uri)?;
            Some(ResourceMatch::Template(Arc::clone(entry), values))
        })
    }

    /// Returns the problems of the definitions, each of them once.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut seen = Map::new();
        self.problems.iter().filter(|problem| seen.insert(problem.as_str(), ()).is_none()).cloned().collect()
    }
}

/// The registry entry that serves a URI.
pub(crate) enum ResourceMatch {
    Resource(Arc<ResourceEntry>),
    Template(Arc<TemplateEntry>, Vec<(String, String)>),
}
