//! Completion of the arguments of prompts and resource templates.

use std::sync::Arc;

use mcp_protocol::Map;

use crate::call::BoxFuture;
use crate::call::context::Context;
use crate::offer::handler::Handler;

/// A `completion/complete` request: the partial value of one argument.
#[doc(alias = "completion/complete")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompletionRequest {
    /// The partial value.
    pub value: String,
    /// The values of other arguments that the client already knows.
    pub arguments: Map<String, String>,
}

/// A function that returns the completions of a partial value.
type CompletionFn = dyn Fn(CompletionRequest, Context) -> BoxFuture<Vec<String>> + Send + Sync;

/// Completion functions by argument name.
#[derive(Clone, Default)]
pub(crate) struct Completers(Map<String, Arc<CompletionFn>>);

impl Completers {
    pub(crate) fn add<S, F>(&mut self, argument: String, function: F)
    where
        F: Handler<S, Args = CompletionRequest>,
        F::Output: IntoIterator<Item: Into<String>>,
        F::Future: Send + 'static,
    {
        let complete = move |request: CompletionRequest, cx: Context| -> BoxFuture<Vec<String>> {
            let future = function.call(request, || cx);
            Box::pin(async move { future.await.into_iter().map(Into::into).collect() })
        };
        self.0.insert(argument, Arc::new(complete));
    }

    pub(crate) fn get(&self, argument: &str) -> Option<Arc<CompletionFn>> {
        self.0.get(argument).cloned()
    }
}
