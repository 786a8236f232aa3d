//! Requests that are answered without a handler: pages of lists, subscriptions and the log level.

use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::logging::{LogLevel, SetLevelParams};
use mcp_protocol::messages::{PageParams, Request};
use mcp_protocol::resources::SubscribeParams;
use mcp_protocol::subscriptions::ListenParams;

use super::core::Core;
use super::params::{check_uri, raise};
use super::router::{RequestAction, RouteResult};
use crate::call::context::Requester;
use crate::call::reply::Reply;
use crate::connection::MAX_SUBSCRIBED_URIS;
use crate::offer::registry::{Cursor, EntryList, ListEntry, Snapshot};

pub(super) fn page<T: ListEntry>(
    core: &Core,
    state: &Snapshot,
    list: &EntryList<T>,
    request: &Request<'_>,
    requester: &Requester,
) -> RouteResult {
    let params: PageParams = raise(request, requester)?;
    let cursor = params.cursor.as_deref().map_or(Cursor::Start, Cursor::After);
    match list.page(requester.dialect, &cursor, &state.settings, &core.meta) {
        Some(page) => Ok(RequestAction::Reply(Reply::Page(page))),
        None => {
            Err(ErrorObject::new(ErrorCode::InvalidParams, "unknown or expired cursor; restart the listing"))
        }
    }
}

pub(super) fn listen(request: &Request<'_>, requester: &Requester) -> RouteResult {
    let params: ListenParams = raise(request, requester)?;
    let mut uris = params.notifications.resource_subscriptions.iter().flatten();
    if uris.clone().count() > MAX_SUBSCRIBED_URIS {
        let message = format!("too many resource subscriptions: at most {MAX_SUBSCRIBED_URIS} per stream");
        return Err(ErrorObject::new(ErrorCode::InvalidParams, message));
    }
    uris.try_for_each(|uri| check_uri(uri))?;
    Ok(RequestAction::Listen(params.notifications))
}

pub(super) fn set_level(request: &Request<'_>, requester: &Requester) -> RouteResult {
    let params: SetLevelParams = raise(request, requester)?;
    if let LogLevel::Other(level) = &params.level {
        return Err(ErrorObject::new(ErrorCode::InvalidParams, format!("unknown log level `{level}`")));
    }
    if let Some(legacy) = &requester.legacy {
        legacy.connection.lock().log_level = Some(params.level);
    }
    Ok(RequestAction::Reply(Reply::Empty))
}

pub(super) fn subscribe(request: &Request<'_>, requester: &Requester, is_subscribe: bool) -> RouteResult {
    let params: SubscribeParams = raise(request, requester)?;
    check_uri(&params.uri)?;
    if let Some(legacy) = &requester.legacy {
        let subscribed = &mut legacy.connection.lock().subscribed;
        if is_subscribe {
            subscribed.insert(params.uri).map_err(|why| ErrorObject::new(ErrorCode::InternalError, why))?;
        } else {
            subscribed.remove(&params.uri);
        }
    }
    Ok(RequestAction::Reply(Reply::Empty))
}
