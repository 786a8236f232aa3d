//! Tools that run only when a person has said yes to exactly what will run.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcp_protocol::Json;
use mcp_protocol::elicitation::{ElicitAction, ElicitFormParams, FormSchema};
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

/// For how long a used approval is remembered: longer than sealed state lives.
const REMEMBERED: Duration = Duration::from_secs(11 * 60);
/// How many of them. When they are used up no more is approved, until the oldest are forgotten.
const MOST: usize = 100_000;

/// Approvals that were used: each is for one run.
#[derive(Default)]
pub(crate) struct Spent(Mutex<VecDeque<(Instant, String)>>);

impl Spent {
    /// Uses one. False if it was used before, or cannot be remembered.
    fn spend(&self, approval: String) -> bool {
        let now = Instant::now();
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while spent.front().is_some_and(|(when, _)| now.duration_since(*when) > REMEMBERED) {
            spent.pop_front();
        }
        let is_new = spent.len() < MOST && !spent.iter().any(|(_, known)| *known == approval);
        if is_new {
            spent.push_back((now, approval));
        }
        is_new
    }
}

/// Waits for a person's yes: through the client, if it can ask, else through the host. Nothing that a caller sends
/// along with the call counts, because the answer is looked for under a name that it cannot know.
pub(crate) async fn wait_for(context: &Context, arguments: &Json, core: &Core) -> Result<(), ToolError> {
    let name = context.name().to_owned();
    let refused = |why: &str| Err(ToolError::new(format!("`{name}` {why}")));
    let proposal = Proposal { context: context.clone(), arguments: arguments.clone() };
    if arguments.get().chars().count() > SHOWN {
        return refused("needs a person's approval, and these arguments are too long to be shown to one");
    }
    let call = context.call_and_round();
    // What does not travel sealed could have been made up.
    let asked = if call.is_some() && !cfg!(feature = "sealing") {
        Err(AskError::FeatureDisabled("sealing"))
    } else {
        let key = call.as_ref().map_or_else(|| "approval".to_owned(), |(call, _)| format!("approval.{call}"));
        context.ask(&key, ElicitFormParams::new(proposal.to_string(), FormSchema::new())).await
    };
    let is_approved = match asked {
        Ok(answer) => answer.action == ElicitAction::Accept,
        Err(AskError::Undeclared(_) | AskError::FeatureDisabled(_)) => match &core.approver {
            Some(approver) => {
                return if approver(proposal).await { Ok(()) } else { refused("was not approved") };
            }
            None => return refused("needs a person's approval, and this client cannot ask for it"),
        },
        Err(other) => return Err(other.into()),
    };
    if !is_approved {
        return refused("was not approved");
    }
    // The same request sent again brings the same yes.
    match call {
        Some((call, round)) if !core.spent.spend(format!("{call}.{round}")) => {
            refused("was approved for one run, and has had it")
        }
        _ => Ok(()),
    }
}
