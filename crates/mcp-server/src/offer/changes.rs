//! Change notifications: which changes a subscriber receives, and the messages for them.

use mcp_protocol::Dialect;
use mcp_protocol::messages::{EmptyParams, Id, Method, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::resources::ResourceUpdatedParams;
use mcp_protocol::subscriptions::{AcknowledgedParams, SubscriptionFilter};
#[cfg(feature = "http")]
use tokio::sync::broadcast::{Receiver, error::RecvError};

use crate::connection::{Connection, URI_OVERHEAD_BYTES};
use crate::offer::registry::RegistryChange;

/// The error message for a subscription that exceeds the memory limit.
pub(crate) const NO_SUBSCRIPTION_MEMORY: &str =
    "no memory left for subscriptions; subscribe to fewer resources or retry later";

/// Returns the supported part of a filter: everything except tasks. The URIs are sorted for binary search and
/// deduplicated.
pub(crate) fn supported_part(filter: &SubscriptionFilter) -> SubscriptionFilter {
    let mut supported = SubscriptionFilter::new();
    supported.tools_list_changed = filter.tools_list_changed.filter(|wanted| *wanted);
    supported.prompts_list_changed = filter.prompts_list_changed.filter(|wanted| *wanted);
    supported.resources_list_changed = filter.resources_list_changed.filter(|wanted| *wanted);
    supported.resource_subscriptions = filter.resource_subscriptions.clone().map(|mut uris| {
        uris.sort_unstable();
        uris.dedup();
        uris.shrink_to_fit();
        uris
    });
    supported
}

/// Returns the memory to charge for a filter, in bytes.
pub(crate) fn memory_of(filter: &SubscriptionFilter) -> usize {
    let uris = filter.resource_subscriptions.iter().flatten();
    URI_OVERHEAD_BYTES + uris.map(|uri| uri.len() + URI_OVERHEAD_BYTES).sum::<usize>()
}

/// A subscriber that is notified of some of the changes of the registry.
pub(crate) trait ChangeSubscriber {
    /// Returns true if the subscriber is notified of this change.
    fn receives(&self, change: &RegistryChange) -> bool;
    /// Returns the URIs of the subscribed resources.
    fn uris(&self) -> Vec<String>;
}

/// Requires sorted URIs: see [`supported_part`].
impl ChangeSubscriber for SubscriptionFilter {
    fn receives(&self, change: &RegistryChange) -> bool {
        match change {
            RegistryChange::Tools => self.tools_list_changed == Some(true),
            RegistryChange::Prompts => self.prompts_list_changed == Some(true),
            RegistryChange::Resources => self.resources_list_changed == Some(true),
            RegistryChange::Resource(uri) => {
                let uris = self.resource_subscriptions.as_deref().unwrap_or_default();
                uris.binary_search_by(|known| known.as_str().cmp(uri)).is_ok()
            }
        }
    }

    fn uris(&self) -> Vec<String> {
        self.resource_subscriptions.clone().unwrap_or_default()
    }
}

/// A legacy client is notified of all lists and of its subscribed resources.
impl ChangeSubscriber for Connection {
    fn receives(&self, change: &RegistryChange) -> bool {
        match change {
            RegistryChange::Resource(uri) => self.lock().subscribed.contains(uri),
            _ => true,
        }
    }

    fn uris(&self) -> Vec<String> {
        self.lock().subscribed.uris()
    }
}

/// Waits for the next changes of which the subscriber is notified; `None` when the server has stopped. If changes were
/// lost, everything counts as changed: see [`all_changes`].
#[cfg(feature = "http")]
pub(crate) async fn next_changes(
    receiver: &mut Receiver<RegistryChange>,
    subscriber: &impl ChangeSubscriber,
) -> Option<Vec<RegistryChange>> {
    loop {
        let changed = match receiver.recv().await {
            Ok(change) => vec![change],
            Err(RecvError::Lagged(_)) => all_changes(subscriber.uris().into_iter()),
            Err(RecvError::Closed) => return None,
        };
        let received: Vec<RegistryChange> =
            changed.into_iter().filter(|change| subscriber.receives(change)).collect();
        if !received.is_empty() {
            return Some(received);
        }
    }
}

/// Returns a change for every list and URI, for a subscriber that missed changes.
pub(crate) fn all_changes(uris: impl Iterator<Item = String>) -> Vec<RegistryChange> {
    let lists = [RegistryChange::Tools, RegistryChange::Resources, RegistryChange::Prompts];
    lists.into_iter().chain(uris.map(|uri| RegistryChange::Resource(uri.into()))).collect()
}

/// Writes the first message of a subscription stream: the supported part of its filter.
pub(crate) fn write_acknowledged(
    out: &mut Vec<u8>,
    dialect: Dialect,
    id: &Id,
    filter: &SubscriptionFilter,
) -> Result<(), serde_json::Error> {
    let params = AcknowledgedParams::new(filter.clone()).meta(Meta::new().subscription_id(id.clone()));
    write::notification(out, &Method::SubscriptionAcknowledged, Some(&dialect.lower(&params)))
}

/// Writes a change notification, with the id of its subscription stream if there is one.
pub(crate) fn write_change(
    out: &mut Vec<u8>,
    dialect: Dialect,
    change: &RegistryChange,
    stream: Option<&Id>,
) -> Result<(), serde_json::Error> {
    let meta = stream.map(|stream| Meta::new().subscription_id(stream.clone()));
    let method = match change {
        RegistryChange::Tools => Method::ToolsChanged,
        RegistryChange::Prompts => Method::PromptsChanged,
        RegistryChange::Resources => Method::ResourcesChanged,
        RegistryChange::Resource(uri) => {
            let mut params = ResourceUpdatedParams::new(&**uri);
            params.meta = meta.map(Box::new);
            return write::notification(out, &Method::ResourceUpdated, Some(&dialect.lower(&params)));
        }
    };
    match meta {
        Some(meta) => write::notification(out, &method, Some(&dialect.lower(&EmptyParams::new().meta(meta)))),
        None => write::notification(out, &method, None),
    }
}
