//! Clients that call `echo`, over whatever transport.

use mcp_client::McpClient;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{Peer, RoleClient, RunningService};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::client::Caller;

const TEXT: &str = "hello there";

/// The arguments of a call, like those of the hand-written client.
#[derive(Serialize)]
struct Arguments {
    text: &'static str,
}

/// Ours, through the public `call` path with its deadlines on.
#[derive(Clone)]
pub struct Ours {
    client: McpClient,
}

impl Ours {
    pub fn new(client: &McpClient) -> Self {
        Self { client: client.clone() }
    }
}

impl Caller for Ours {
    async fn call(&self, _: u64) {
        let outcome = self.client.call("echo", Arguments { text: TEXT }).await.unwrap();
        assert_eq!(outcome.content()[0].as_text(), Some(TEXT));
    }
}

/// rmcp's, as its README shows.
#[derive(Clone)]
pub struct Rmcp {
    peer: Peer<RoleClient>,
    arguments: Map<String, Value>,
}

impl Rmcp {
    pub fn new(client: &RunningService<RoleClient, ()>) -> Self {
        let arguments = json!({"text": TEXT}).as_object().cloned().unwrap();
        Self { peer: client.peer().clone(), arguments }
    }
}

impl Caller for Rmcp {
    async fn call(&self, _: u64) {
        let params = CallToolRequestParams::new("echo").with_arguments(self.arguments.clone());
        let result = self.peer.call_tool(params).await.unwrap();
        assert_eq!(result.content[0].as_text().unwrap().text, TEXT);
    }
}
