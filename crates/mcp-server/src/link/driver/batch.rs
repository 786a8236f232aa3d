//! JSON-RPC batches (MCP 2025-03-26): several messages in one array, answered by one array of responses.

use mcp_protocol::Dialect;
use mcp_protocol::errors::{ErrorCode, ErrorObject};
use mcp_protocol::messages::{Batch, Id, Message, Method};
use mcp_protocol::negotiation::StdioClassification;
use mcp_protocol::peer::Arrival;

use super::Driver;
use super::negotiate::Admission;
use super::tasks::{RunningTask, TaskOutput};
use crate::call::reply::Reply;
use crate::connection::write_error;
use crate::dispatch::router::RequestAction;

impl Driver<'_> {
    /// Handles a batch. Its requests run one after the other, and one array contains all responses.
    pub(super) fn handle_batch(&mut self, batch: &Batch<'_>) {
        let dialect = match self.negotiation.classify_batch(batch) {
            StdioClassification::Legacy(dialect) => dialect,
            StdioClassification::RejectWithoutId(error) => {
                let dialect = self.dialect();
                let _ = self.outlet.send(|out| write_error(out, None, dialect, &error));
                return;
            }
            _ => return,
        };
        let mut routes = Vec::new();
        let mut errors = Vec::new();
        for message in batch.messages() {
            match message {
                Ok(Message::Request(request)) => {
                    let message = Message::Request(request.clone());
                    if self.connection.lock().peer.handle_message(&message, self.now) != Arrival::Request {
                        continue;
                    }
                    let route = if request.method == Method::Initialize {
                        let code = ErrorCode::InvalidRequest;
                        RequestAction::Reply(Reply::Error(ErrorObject::new(
                            code,
                            "`initialize` must not be part of a batch",
                        )))
                    } else {
                        match self.negotiate(&message, &request) {
                            Admission::Route(requester) => self.core.route(&request, &requester),
                            Admission::Reply(_, reply) => RequestAction::Reply(reply),
                        }
                    };
                    routes.push((request.id, route));
                }
                Ok(other) => self.handle_message(&other),
                Err(error) => errors.push(error.to_error_object()),
            }
        }
        self.transmit();
        if routes.is_empty() && errors.is_empty() {
            return;
        }
        let abort = self.runs.spawn(async move {
            let mut replies = Vec::new();
            for (id, route) in routes {
                let reply = match route {
                    RequestAction::Reply(reply) => reply,
                    RequestAction::Run(run) => run.await,
                    RequestAction::Listen(_) => Reply::Empty,
                };
                replies.push((id, reply));
            }
            TaskOutput::Batch(replies, errors)
        });
        let running = RunningTask { id: None, dialect, context: None, abort };
        self.running.insert(running.abort.id(), running);
    }

    pub(super) fn answer_batch(&self, dialect: Dialect, replies: &[(Id, Reply)], errors: &[ErrorObject]) {
        let wanted: Vec<_> =
            replies.iter().filter(|(id, _)| self.connection.lock().peer.complete_request(id)).collect();
        if wanted.is_empty() && errors.is_empty() {
            return;
        }
        let meta = &self.core.meta;
        let _ = self.outlet.send(|out| {
            out.push(b'[');
            for (id, reply) in &wanted {
                reply.write(out, id, dialect, meta)?;
                out.push(b',');
            }
            for error in errors {
                write_error(out, None, dialect, error)?;
                out.push(b',');
            }
            if out.last() == Some(&b',') {
                out.pop();
            }
            out.push(b']');
            Ok(())
        });
    }
}
