//! Approval: a person approves a call before it runs.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use mcp_protocol::Json;
use mcp_protocol::safe_text::SafeText;

use crate::call::BoxFuture;
use crate::call::context::Context;
use crate::error::{AskError, ToolError};

/// The maximum number of characters of arguments that a person is asked to approve.
const MAX_SHOWN_CHARS: usize = 4000;

/// A call that a person is asked to approve, with its exact arguments.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Proposal {
    /// The context of the call: tool, principal, client.
    pub context: Context,
    /// The arguments.
    pub arguments: Json,
}

/// Writes the question for the person. Characters that could mislead a reader, such as control characters, are escaped.
impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arguments = SafeText::new(self.arguments.get()).at_most(MAX_SHOWN_CHARS);
        write!(f, "Run `{}` with {arguments}?", SafeText::new(self.context.name()))
    }
}

/// The function set by [`McpServer::approve_with`](crate::McpServer::approve_with).
pub(crate) type Approver = dyn Fn(Proposal) -> BoxFuture<bool> + Send + Sync;

pub(crate) fn approver<F, Fut>(function: F) -> Arc<Approver>
where
    F: Fn(Proposal) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = bool> + Send + 'static,
{
    Arc::new(move |proposal| Box::pin(function(proposal)))
}

/// Waits for approval: through elicitation if the client supports it, otherwise through the approver. An answer that
/// the client sends before it is asked is not accepted. An approval is valid only once.
pub(crate) async fn wait_for(
    context: &Context,
    arguments: &Json,
    approver: Option<&Approver>,
) -> Result<(), ToolError> {
    let name = context.name().to_owned();
    let refused = |why: &str| Err(ToolError::new(format!("`{name}` {why}")));
    let proposal = Proposal { context: context.clone(), arguments: arguments.clone() };
    if arguments.get().chars().count() > MAX_SHOWN_CHARS {
        return refused("needs approval, but its arguments are too long to show for approval");
    }
    match context.confirm_in("approval", "approval", proposal.to_string()).await {
        Ok(true) => Ok(()),
        Ok(false) => refused("was not approved"),
        Err(AskError::Spent) => {
            refused("already ran with this approval, which is valid only once; start a new call to ask again")
        }
        Err(AskError::Undeclared(_) | AskError::FeatureDisabled(_)) => match approver {
            Some(approver) => {
                if approver(proposal).await {
                    Ok(())
                } else {
                    refused("was not approved")
                }
            }
            None => refused(
                "needs approval, but the client does not support elicitation; set McpServer::approve_with",
            ),
        },
        Err(other) => Err(other.into()),
    }
}
