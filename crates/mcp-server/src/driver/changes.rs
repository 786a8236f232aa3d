//! Telling the client what changed, as its era has it: unasked to a legacy client, on a stream to a modern one.

use mcp_protocol::Dialect;
use mcp_protocol::messages::{CancelledParams, EmptyParams, Id, Method, write};
use mcp_protocol::meta::Meta;
use mcp_protocol::resources::ResourceUpdatedParams;
use mcp_protocol::subscriptions::{AcknowledgedParams, ListenResult, SubscriptionFilter};

#[cfg(feature = "http")]
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::Driver;
use crate::registry::Change;
use crate::reply::Reply;

/// The streams of changes that a modern client has open.
#[derive(Default)]
pub(crate) struct Subscriptions(Vec<Subscription>);

struct Subscription {
    id: Id,
    dialect: Dialect,
    filter: SubscriptionFilter,
}

/// How many streams one client may have open.
const STREAMS: usize = 16;

impl Subscriptions {
    pub(super) fn remove(&mut self, id: &Id) -> bool {
        let before = self.0.len();
        self.0.retain(|subscription| subscription.id != *id);
        self.0.len() < before
    }

    /// Every resource that is followed.
    pub(super) fn followed(&self) -> Vec<String> {
        let uris =
            self.0.iter().filter_map(|subscription| subscription.filter.resource_subscriptions.as_ref());
        uris.flatten().cloned().collect()
    }
}

/// What of a filter is honoured: everything but tasks, which are not served.
pub(crate) fn honoured(filter: &SubscriptionFilter) -> SubscriptionFilter {
    let mut honoured = SubscriptionFilter::new();
    honoured.tools_list_changed = filter.tools_list_changed.filter(|wanted| *wanted);
    honoured.prompts_list_changed = filter.prompts_list_changed.filter(|wanted| *wanted);
    honoured.resources_list_changed = filter.resources_list_changed.filter(|wanted| *wanted);
    honoured.resource_subscriptions.clone_from(&filter.resource_subscriptions);
    honoured
}

/// True if the filter asks for this change.
pub(crate) fn wants(filter: &SubscriptionFilter, change: &Change) -> bool {
    match change {
        Change::Tools => filter.tools_list_changed == Some(true),
        Change::Prompts => filter.prompts_list_changed == Some(true),
        Change::Resources => filter.resources_list_changed == Some(true),
        Change::Resource(uri) => {
            filter.resource_subscriptions.iter().flatten().any(|followed| **followed == **uri)
        }
    }
}

/// The next changes that the filter asks for; `None` when the server has ended.
#[cfg(feature = "http")]
pub(crate) async fn next(
    receiver: &mut Receiver<Change>,
    filter: &SubscriptionFilter,
) -> Option<Vec<Change>> {
    loop {
        let changed = match receiver.recv().await {
            Ok(change) => vec![change],
            Err(RecvError::Lagged(_)) => everything(filter.resource_subscriptions.iter().flatten().cloned()),
            Err(RecvError::Closed) => return None,
        };
        let wanted: Vec<Change> = changed.into_iter().filter(|change| wants(filter, change)).collect();
        if !wanted.is_empty() {
            return Some(wanted);
        }
    }
}

/// Too many changes to tell each: everything may have changed.
pub(crate) fn everything(followed: impl Iterator<Item = String>) -> Vec<Change> {
    let lists = [Change::Tools, Change::Resources, Change::Prompts];
    lists.into_iter().chain(followed.map(|uri| Change::Resource(uri.into()))).collect()
}

/// Writes the first message of a stream: what of its filter is honoured.
pub(crate) fn write_acknowledged(
    out: &mut Vec<u8>,
    dialect: Dialect,
    id: &Id,
    filter: &SubscriptionFilter,
) -> Result<(), serde_json::Error> {
    let params = AcknowledgedParams::new(filter.clone()).meta(Meta::new().subscription_id(id.clone()));
    write::notification(out, &Method::SubscriptionAcknowledged, Some(&dialect.lower(&params)))
}

/// Writes the notification of a change, which may belong to a stream.
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
        if self.subscriptions.0.len() >= STREAMS {
            let code = mcp_protocol::errors::ErrorCode::InternalError;
            let error = mcp_protocol::errors::ErrorObject::new(code, "too many streams of changes are open");
            return self.answer(id, dialect, &Reply::Error(error));
        }
        let filter = honoured(&filter);
        let _ = self.outlet.send(|out| write_acknowledged(out, dialect, id, &filter));
        self.subscriptions.0.push(Subscription { id: id.clone(), dialect, filter });
    }

    pub(super) fn tell(&mut self, change: &Change) {
        if let Some(dialect) = self.negotiation.negotiated() {
            let is_wanted = match change {
                Change::Resource(uri) => self.connection.lock().followed.contains_key(&**uri),
                _ => true,
            };
            if is_wanted {
                self.outlet.offer(|out| write_change(out, dialect, change, None));
            }
        }
        for Subscription { id, dialect, filter } in &self.subscriptions.0 {
            if wants(filter, change) {
                self.outlet.offer(|out| write_change(out, *dialect, change, Some(id)));
            }
        }
    }

    /// Ends every stream: its result, and the cancellation that an older page of the protocol wants.
    pub(super) fn end_subscriptions(&mut self) {
        for Subscription { id, dialect, .. } in std::mem::take(&mut self.subscriptions.0) {
            let result = ListenResult::new().meta(Meta::new().subscription_id(id.clone()));
            self.answer(&id, dialect, &Reply::result(result));
            let params = CancelledParams::new(id);
            let _ = self
                .outlet
                .send(|out| write::notification(out, &Method::Cancelled, Some(&dialect.lower(&params))));
        }
    }
}
