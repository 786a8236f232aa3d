//! Reading resources.

use mcp_protocol::messages::Method;
use mcp_protocol::peer::Timeouts;
use mcp_protocol::resources::{ReadResourceParams, ReadResourceResult};

use crate::client::McpClient;
use crate::client::observed::run_observed;
use crate::error::Result;

impl McpClient {
    /// Reads a resource.
    ///
    /// # Errors
    /// Fails if the server responds with an error, the request times out, or the connection is lost.
    pub async fn read_resource(&self, uri: impl Into<String>) -> Result<ReadResourceResult> {
        let mut params = ReadResourceParams::new(uri);
        let cache = &self.inner().connection.terms.cache;
        let wanted = match cache.find(&Method::ResourcesRead, &params.uri) {
            Ok(body) => return self.complete_round(&Method::ResourcesRead, &body),
            Err(wanted) => wanted,
        };
        let body = run_observed(self, &Method::ResourcesRead, &mut params, Timeouts::default(), None).await?;
        let is_first = params.input_responses.is_none() && params.request_state.is_none();
        if let Some(wanted) = wanted.filter(|_| is_first && self.dialect().is_modern()) {
            cache.keep(wanted, &body);
        }
        self.complete_round(&Method::ResourcesRead, &body)
    }
}
