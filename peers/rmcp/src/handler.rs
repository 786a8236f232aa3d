//! Handles requests and notifications of the server.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, Implementation,
    ProgressNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use rmcp::{ClientHandler, ErrorData};
use serde_json::json;

/// The notifications that the server sent.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Notes>>);

#[derive(Default)]
struct Notes {
    progress: Vec<(f64, Option<f64>)>,
    tools_changed: bool,
}

impl Seen {
    pub(crate) fn progress(&self) -> Vec<(f64, Option<f64>)> {
        self.with(|notes| notes.progress.clone())
    }

    pub(crate) fn tools_changed(&self) -> bool {
        self.with(|notes| notes.tools_changed)
    }

    fn with<T>(&self, look: impl FnOnce(&mut Notes) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) struct Handler {
    seen: Seen,
}

impl Handler {
    pub(crate) fn new(seen: Seen) -> Self {
        Self { seen }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(Default::default());
        ClientConfig::new(capabilities, Implementation::new("rmcp", "1"))
    }

    /// Answers the elicitation request of the tool `ask`.
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match request {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. }
                if message == "Who are you?" && requested_schema.properties.contains_key("name") =>
            {
                Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": "Ada"})))
            }
            other => Err(ErrorData::invalid_params(format!("not the question: {other:?}"), None)),
        }
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.seen.with(|notes| notes.progress.push((params.progress, params.total)));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.seen.with(|notes| notes.tools_changed = true);
    }
}
