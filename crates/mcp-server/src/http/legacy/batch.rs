//! JSON-RPC batches over HTTP (MCP 2025-03-26).

use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;
use mcp_protocol::Dialect;
use mcp_protocol::messages::{Batch, Message};
use mcp_protocol::peer::Arrival;

use super::in_flight::InFlightCall;
use super::requester;
use crate::call::identity::Identity;
use crate::call::reply::Reply;
use crate::connection::write_error;
use crate::dispatch::router::RequestAction;
use crate::http::ServiceState;
use crate::http::response::{HttpResponse, empty_response, json_response};
use crate::http::session::Session;

impl ServiceState {
    /// Handles a batch and returns one array with all responses. If the client disconnects, the calls of the batch end,
    /// because there is no stream to resume.
    pub(super) async fn legacy_batch(
        self: &Arc<Self>,
        session: &Arc<Session>,
        dialect: Dialect,
        batch: &Batch<'_>,
        identity: &Identity,
    ) -> HttpResponse {
        let mut out = Vec::from(*b"[");
        for message in batch.messages() {
            match message {
                Ok(Message::Request(request)) => {
                    let reply = match InFlightCall::begin(session, &request) {
                        Err(error) => Some(Reply::Error(error)),
                        Ok(call) => {
                            let call = call.cancellable();
                            let (_, outlet) = session.outlet();
                            // Requests to the client and progress need a stream, which a batch does not have.
                            outlet.close();
                            let requester = requester(session, &outlet, identity.clone());
                            let reply = match self.core.route(&request, &requester) {
                                RequestAction::Reply(reply) => Some(reply),
                                RequestAction::Run(run) => tokio::select! {
                                    reply = run => Some(reply),
                                    () = call.cancelled() => None,
                                },
                                RequestAction::Listen(_) => None,
                            };
                            reply.filter(|_| call.finish())
                        }
                    };
                    if let Some(reply) = reply {
                        let _ = reply.write(&mut out, &request.id, dialect, &self.core.meta);
                        out.push(b',');
                    }
                }
                Ok(message) => {
                    let arrival = session.connection.lock().peer.handle_message(&message, Instant::now());
                    match (arrival, message) {
                        (Arrival::Cancelled(id), _) => session.cancel(&id),
                        (Arrival::Response(call), Message::Response(response)) => {
                            session.connection.settle(call, &response);
                        }
                        _ => {}
                    }
                }
                Err(error) => {
                    let _ = write_error(&mut out, None, dialect, &error.to_error_object());
                    out.push(b',');
                }
            }
        }
        if out.len() == 1 {
            return empty_response(StatusCode::ACCEPTED);
        }
        out.pop();
        out.push(b']');
        json_response(StatusCode::OK, out)
    }
}
