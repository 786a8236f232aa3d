//! Tools that run only when a person has said yes to exactly what will run.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use mcp_protocol::Json;
use mcp_protocol::visible::Visible;

use crate::context::Context;
use crate::error::{AskError, ToolError};
use crate::router::Core;
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
/// along with the call counts, and the yes is for one run.
pub(crate) async fn wait_for(context: &Context, arguments: &Json, core: &Core) -> Result<(), ToolError> {
    let name = context.name().to_owned();
    let refused = |why: &str| Err(ToolError::new(format!("`{name}` {why}")));
    let proposal = Proposal { context: context.clone(), arguments: arguments.clone() };
    if arguments.get().chars().count() > SHOWN {
        return refused("needs approval, but its arguments are too long to show for approval");
    }
    match context.confirm_in("approval", "approval", proposal.to_string()).await {
        Ok(true) => Ok(()),
        Ok(false) => refused("was not approved"),
        Err(AskError::Spent) => {
            refused("was already run with this approval; an approval is valid for one run")
        }
        Err(AskError::Undeclared(_) | AskError::FeatureDisabled(_)) => match &core.approver {
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
