//! Calls that are pending after their first poll: each is a task that the driver owns.

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, Waker};

use mcp_protocol::Dialect;
use mcp_protocol::errors::ErrorObject;
use mcp_protocol::messages::{Id, Request};
use tokio::task::AbortHandle;

use super::Driver;
use crate::call::context::Context;
use crate::call::reply::Reply;
use crate::dispatch::run::{CallFuture, panic_reply};

pub(super) type TaskResult = Result<(tokio::task::Id, TaskOutput), tokio::task::JoinError>;

/// The output of a spawned call or batch.
pub(super) enum TaskOutput {
    Reply(Reply),
    /// The responses to a batch.
    Batch(Vec<(Id, Reply)>, Vec<ErrorObject>),
}

/// A spawned call or batch.
pub(super) struct RunningTask {
    /// `None` for a batch.
    pub(super) id: Option<Id>,
    pub(super) dialect: Dialect,
    pub(super) context: Option<Context>,
    pub(super) abort: AbortHandle,
}

impl RunningTask {
    /// Marks the context as cancelled, and aborts the task.
    fn cancel(&self) {
        if let Some(context) = &self.context {
            context.cancel();
        }
        self.abort.abort();
    }
}

impl Driver<'_> {
    pub(super) fn poll_or_spawn(
        &mut self,
        request: &Request<'_>,
        dialect: Dialect,
        mut run: Box<CallFuture>,
    ) {
        let id = &request.id;
        // The no-op waker is safe because a pending call is polled again when it is spawned.
        match Pin::new(&mut run).poll(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(reply) => self.answer(id, dialect, &reply),
            Poll::Pending => {
                if let Some(memory) = &self.memory {
                    run.hold(memory.overdraw(request.params.text().len()));
                }
                let context = run.context.clone();
                let abort = self.runs.spawn(async move { TaskOutput::Reply(run.await) });
                let running = RunningTask { id: Some(id.clone()), dialect, context, abort };
                self.task_of_request.insert(id.clone(), running.abort.id());
                self.running.insert(running.abort.id(), running);
            }
        }
    }

    pub(super) fn answer(&self, id: &Id, dialect: Dialect, reply: &Reply) {
        if self.connection.lock().peer.complete_request(id) {
            let meta = &self.core.meta;
            // Fails if the connection is closed.
            let _ = self.outlet.send(|out| reply.write(out, id, dialect, meta));
        }
    }

    fn answer_running(&self, id: Option<&Id>, dialect: Dialect, reply: &Reply) {
        if let Some(id) = id {
            self.answer(id, dialect, reply);
        }
    }

    pub(super) fn handle_task_end(&mut self, ended: TaskResult) {
        let task = match &ended {
            Ok((task, _)) => *task,
            Err(error) => error.id(),
        };
        let Some(RunningTask { id, dialect, context, .. }) = self.running.remove(&task) else { return };
        if let Some(id) = &id {
            self.task_of_request.remove(id);
        }
        match ended {
            Ok((_, TaskOutput::Reply(reply))) => self.answer_running(id.as_ref(), dialect, &reply),
            Ok((_, TaskOutput::Batch(replies, errors))) => self.answer_batch(dialect, &replies, &errors),
            Err(error) if error.is_panic() => {
                let reply = panic_reply(context.as_ref().map(Context::name));
                self.answer_running(id.as_ref(), dialect, &reply);
            }
            // The call was cancelled. `respond` frees its id; nothing is sent.
            Err(_) => {
                if let Some(id) = &id {
                    self.connection.lock().peer.complete_request(id);
                }
            }
        }
    }

    pub(super) fn cancel(&mut self, id: &Id) {
        if self.subscriptions.remove(id) {
            self.connection.lock().peer.complete_request(id);
            return;
        }
        if let Some(running) = self.task_of_request.get(id).and_then(|task| self.running.get(task)) {
            running.cancel();
        }
    }

    pub(super) fn cancel_all(&mut self) {
        for running in self.running.values() {
            running.cancel();
        }
    }
}
