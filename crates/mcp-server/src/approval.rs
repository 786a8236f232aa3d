//! Tools that run only when a person has said yes to exactly what will run.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use mcp_protocol::Json;
use mcp_protocol::elicitation::{ElicitAction, ElicitFormParams, FormSchema};
use mcp_protocol::visible::Visible;

use crate::context::Context;
use crate::error::{AskError, ToolError};
use crate::tool::BoxFuture;

/// How much of the arguments a person is shown.
const SHOWN: usize = 4000;

/// Exactly what would run: for a person to approve.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Proposal {
    /// Who calls which tool.
    pub context: Context,
    /// With which arguments.
    pub arguments: Json,
}

/// The proposal in words. What could mislead a reader is escaped.
impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arguments = Visible::new(self.arguments.get()).at_most(SHOWN);
        write!(f, "Run `{}` with {arguments}?", Visible::new(self.context.name()))
    }
}

/// A host's own way of asking a person.
pub(crate) type Approver = dyn Fn(Proposal) -> BoxFuture<bool> + Send + Sync;

pub(crate) fn approver<F, Fut>(function: F) -> Arc<Approver>
where
    F: Fn(Proposal) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = bool> + Send + 'static,
{
    Arc::new(move |proposal| Box::pin(function(proposal)))
}

/// Waits for a person's yes: through the client, if it can ask, else through the host. Nothing that a caller sends
/// along with the call counts, because the answer is looked for under a name that it cannot know.
pub(crate) async fn wait_for(
    context: &Context,
    arguments: Json,
    approver: Option<&Arc<Approver>>,
) -> Result<(), ToolError> {
    let name = context.name().to_owned();
    let proposal = Proposal { context: context.clone(), arguments };
    if proposal.arguments.get().chars().count() > SHOWN {
        return Err(ToolError::new(format!(
            "`{name}` needs a person's approval, and these arguments are too long to be shown to one"
        )));
    }
    let form = ElicitFormParams::new(proposal.to_string(), FormSchema::new());
    let is_approved = match context.ask(&context.unguessable("approval"), form).await {
        Ok(answer) => answer.action == ElicitAction::Accept,
        Err(AskError::Undeclared(_)) => match approver {
            Some(approver) => approver(proposal).await,
            None => {
                return Err(ToolError::new(format!(
                    "`{name}` needs a person's approval, and this client cannot ask for it"
                )));
            }
        },
        Err(other) => return Err(other.into()),
    };
    if is_approved { Ok(()) } else { Err(ToolError::new(format!("`{name}` was not approved"))) }
}
