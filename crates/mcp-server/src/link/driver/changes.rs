//! Change notifications: unsolicited to a legacy client, on a subscription stream to a modern one.

use mcp_protocol::Dialect;
use mcp_protocol::messages::{EmptyParams, Id, Method, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::resources::ResourceUpdatedParams;
use mcp_protocol::subscriptions::{AcknowledgedParams, ListenResult, SubscriptionFilter};

#[cfg(feature = "http")]
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::Driver;
use crate::budget::Share;
use crate::call::reply::Reply;
use crate::connection::{Connection, URI_OVERHEAD};
use crate::offer::registry::Change;

/// The open subscription streams of a modern client.
#[derive(Default)]
pub(crate) struct Subscriptions(Vec<Subscription>);

struct Subscription {
    id: Id,
    dialect: Dialect,
    filter: SubscriptionFilter,
    _memory: Option<Share>,
}

/// The maximum number of open subscription streams of one client.
const MAX_STREAMS: usize = 16;
/// The error message for a subscription that exceeds the memory limit.
pub(crate) const NO_MEMORY: &str =
    "no memory left for subscriptions; subscribe to fewer resources or retry later";

impl Subscriptions {
    pub(super) fn remove(&mut self, id: &Id) -> bool {
        let before = self.0.len();
        self.0.retain(|subscription| subscription.id != *id);
        self.0.len() < before
    }

    /// Returns the URIs of all subscribed resources.
    pub(super) fn uris(&self) -> Vec<String> {
        let uris =
            self.0.iter().filter_map(|subscription| subscription.filter.resource_subscriptions.as_ref());
        uris.flatten().cloned().collect()
    }
}

/// Returns the supported part of a filter: everything except tasks. URIs are sorted and deduplicated for binary search.
pub(crate) fn honoured(filter: &SubscriptionFilter) -> SubscriptionFilter {
    let mut honoured = SubscriptionFilter::new();
    honoured.tools_list_changed = filter.tools_list_changed.filter(|wanted| *wanted);
    honoured.prompts_list_changed = filter.prompts_list_changed.filter(|wanted| *wanted);
    honoured.resources_list_changed = filter.resources_list_changed.filter(|wanted| *wanted);
    honoured.resource_subscriptions = filter.resource_subscriptions.clone().map(|mut uris| {
        uris.sort_unstable();
        uris.dedup();
        uris.shrink_to_fit();
        uris
    });
    honoured
}

/// Returns the memory of a filter in bytes.
pub(crate) fn held_by(filter: &SubscriptionFilter) -> usize {
    let uris = filter.resource_subscriptions.iter().flatten();
    URI_OVERHEAD + uris.map(|uri| uri.len() + URI_OVERHEAD).sum::<usize>()
}

/// A subscriber to some changes.
pub(crate) trait Subscriber {
    fn wants(&self, change: &Change) -> bool;
    /// Returns the URIs of the subscribed resources.
    fn uris(&self) -> Vec<String>;
}

/// Requires sorted URIs: see [`honoured`].
impl Subscriber for SubscriptionFilter {
    fn wants(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools_list_changed == Some(true),
            Change::Prompts => self.prompts_list_changed == Some(true),
            Change::Resources => self.resources_list_changed == Some(true),
            Change::Resource(uri) => {
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
impl Subscriber for Connection {
    fn wants(&self, change: &Change) -> bool {
        match change {
            Change::Resource(uri) => self.lock().subscribed.contains(uri),
            _ => true,
        }
    }

    fn uris(&self) -> Vec<String> {
        self.lock().subscribed.uris()
    }
}

/// Waits for the next changes that the subscriber wants; `None` when the server has stopped.
#[cfg(feature = "http")]
pub(crate) async fn next(
    receiver: &mut Receiver<Change>,
    subscriber: &impl Subscriber,
) -> Option<Vec<Change>> {
    loop {
        let changed = match receiver.recv().await {
            Ok(change) => vec![change],
            Err(RecvError::Lagged(_)) => everything(subscriber.uris().into_iter()),
            Err(RecvError::Closed) => return None,
        };
        let wanted: Vec<Change> = changed.into_iter().filter(|change| subscriber.wants(change)).collect();
        if !wanted.is_empty() {
            return Some(wanted);
        }
    }
}

/// Returns a change for every list and URI, for a subscriber that missed changes.
pub(crate) fn everything(uris: impl Iterator<Item = String>) -> Vec<Change> {
    let lists = [Change::Tools, Change::Resources, Change::Prompts];
    lists.into_iter().chain(uris.map(|uri| Change::Resource(uri.into()))).collect()
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
    change: &Change,
    stream: Option<&Id>,
) -> Result<(), serde_json::Error> {
    let meta = stream.map(|stream| Meta::new().subscription_id(stream.clone()));
    let method = match change {
        Change::Tools => Method::ToolsChanged,
        Change::Prompts => Method::PromptsChanged,
        Change::Resources => Method::ResourcesChanged,
        Change::Resource(uri) => {
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

impl Driver<'_> {
    pub(super) fn listen(&mut self, id: &Id, dialect: Dialect, filter: SubscriptionFilter) {
        if self.subscriptions.0.len() >= MAX_STREAMS {
            let code = mcp_protocol::errors::ErrorCode::InternalError;
            let error = mcp_protocol::errors::ErrorObject::new(
                code,
                "too many open subscription streams; cancel others first",
            );
            return self.answer(id, dialect, &Reply::Error(error));
        }
        let filter = honoured(&filter);
        let memory = match self.memory.as_ref().map(|memory| memory.take(held_by(&filter))) {
            Some(None) => return self.answer(id, dialect, &Reply::Overloaded(NO_MEMORY)),
            taken => taken.flatten(),
        };
        let _ = self.outlet.send(|out| write_acknowledged(out, dialect, id, &filter));
        self.subscriptions.0.push(Subscription { id: id.clone(), dialect, filter, _memory: memory });
    }

    pub(super) fn tell(&mut self, change: &Change) {
        if let Some(dialect) = self.negotiation.negotiated()
            && self.connection.wants(change)
        {
            self.outlet.offer(|out| write_change(out, dialect, change, None));
        }
        for Subscription { id, dialect, filter, .. } in &self.subscriptions.0 {
            if filter.wants(change) {
                self.outlet.offer(|out| write_change(out, *dialect, change, Some(id)));
            }
        }
    }

    /// Ends every subscription stream with its result. The `notifications/cancelled` that MCP 2026-07-28,
    /// basic/patterns/cancellation, requires in addition is not sent: the page on subscriptions is newer, and clients
    /// take a cancellation for one of their own requests.
    pub(super) fn end_subscriptions(&mut self) {
        for Subscription { id, dialect, .. } in std::mem::take(&mut self.subscriptions.0) {
            let result = ListenResult::new().meta(Meta::new().subscription_id(id.clone()));
            self.answer(&id, dialect, &Reply::result(result));
        }
    }
}
