//! Change notifications over a byte stream. A legacy client gets them unsolicited, a modern client on subscription
//! streams.

use mcp_protocol::Dialect;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::Id;
use mcp_protocol::meta::Meta;
use mcp_protocol::subscriptions::{ListenResult, SubscriptionFilter};
use tokio::sync::broadcast::error::RecvError;

use super::Driver;
use crate::budget::Share;
use crate::call::reply::Reply;
use crate::offer::changes::{
    ChangeSubscriber, NO_SUBSCRIPTION_MEMORY, all_changes, memory_of, supported_part, write_acknowledged,
    write_change,
};
use crate::offer::registry::RegistryChange;

/// The maximum number of open subscription streams of one client.
const MAX_SUBSCRIPTION_STREAMS: usize = 16;

/// The open subscription streams of a modern client.
#[derive(Default)]
pub(super) struct Subscriptions(Vec<Subscription>);

struct Subscription {
    id: Id,
    dialect: Dialect,
    filter: SubscriptionFilter,
    _memory: Option<Share>,
}

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

impl Driver<'_> {
    pub(super) fn open_subscription(&mut self, id: &Id, dialect: Dialect, filter: SubscriptionFilter) {
        if self.subscriptions.0.len() >= MAX_SUBSCRIPTION_STREAMS {
            let code = ErrorCode::InternalError;
            let error =
                ErrorObject::new(code, "too many open subscription streams; cancel another one first");
            return self.answer(id, dialect, &Reply::Error(error));
        }
        let filter = supported_part(&filter);
        let memory = match self.memory.as_ref().map(|memory| memory.take(memory_of(&filter))) {
            Some(None) => return self.answer(id, dialect, &Reply::Overloaded(NO_SUBSCRIPTION_MEMORY)),
            taken => taken.flatten(),
        };
        let _ = self.outlet.send(|out| write_acknowledged(out, dialect, id, &filter));
        self.subscriptions.0.push(Subscription { id: id.clone(), dialect, filter, _memory: memory });
    }

    pub(super) fn notify(&mut self, change: &RegistryChange) {
        if let Some(dialect) = self.negotiation.negotiated()
            && self.connection.receives(change)
        {
            self.outlet.offer(|out| write_change(out, dialect, change, None));
        }
        for Subscription { id, dialect, filter, .. } in &self.subscriptions.0 {
            if filter.receives(change) {
                self.outlet.offer(|out| write_change(out, *dialect, change, Some(id)));
            }
        }
    }

    /// Ends every subscription stream with its result.
    ///
    /// MCP 2026-07-28, basic/patterns/cancellation, also requires a `notifications/cancelled`. It is not sent, because
    /// the page on subscriptions is newer, and because clients would relate it to one of their own requests.
    pub(super) fn end_subscriptions(&mut self) {
        for Subscription { id, dialect, .. } in std::mem::take(&mut self.subscriptions.0) {
            let result = ListenResult::new().meta(Meta::new().subscription_id(id.clone()));
            self.answer(&id, dialect, &Reply::result(result));
        }
    }

    pub(super) fn handle_change(&mut self, change: Result<RegistryChange, RecvError>) {
        match change {
            Ok(change) => self.notify(&change),
            // Changes were lost, so everything may have changed.
            Err(RecvError::Lagged(_)) => {
                let uris = self.connection.uris().into_iter().chain(self.subscriptions.uris());
                for change in all_changes(uris) {
                    self.notify(&change);
                }
            }
            Err(RecvError::Closed) => {}
        }
    }
}
