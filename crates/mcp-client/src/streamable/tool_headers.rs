//! The headers that repeat parts of a request body: the method, the name, and annotated arguments of tools.
//!
//! Spec: MCP 2026-07-28, basic/transports.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{HeaderName, HeaderValue};
use mcp_protocol::Limits;
use mcp_protocol::codec::header;
use mcp_protocol::codec::param_header::{AnnotationError, ParamHeaders};
use mcp_protocol::lists::SkippedItem;
use mcp_protocol::messages::{Incoming, Message, Method, parse_bytes};
use mcp_protocol::tools::Tool;

use super::lock;

/// The maximum number of bytes that the `x-mcp-header` annotations of all tools of one server take in memory: 1 KiB for
/// each of 4096 tools.
const MAX_ANNOTATION_BYTES: usize = 4 << 20;

/// Headers that repeat parts of a body.
pub(super) type RepeatedHeaders = Vec<(HeaderName, HeaderValue)>;

/// The tool arguments that are repeated as headers (`x-mcp-header`). They are known from the list of tools.
#[derive(Debug, Default)]
pub(super) struct ToolHeaders {
    annotations: Mutex<HeaderAnnotations>,
}

#[derive(Debug, Default)]
struct HeaderAnnotations {
    /// True once the list was read, or could not be read.
    is_known: bool,
    /// The headers by tool name, for tools with `x-mcp-header` in their schema.
    headers: BTreeMap<String, Arc<ParamHeaders>>,
}

impl ToolHeaders {
    /// Returns true if the list of tools was read, or could not be read.
    pub(super) fn is_known(&self) -> bool {
        lock(&self.annotations).is_known
    }

    /// Records that the list cannot be read. Calls are then made without the headers for arguments.
    pub(super) fn give_up(&self) {
        lock(&self.annotations).is_known = true;
    }

    /// Causes the list to be read again before the next call.
    pub(super) fn forget(&self) {
        lock(&self.annotations).is_known = false;
    }

    /// Stores the `x-mcp-header` annotations of these tools. Removes and returns the tools whose annotations are
    /// invalid or exceed the limit for one server: such tools must not be called over HTTP.
    pub(super) fn learn(&self, tools: &mut Vec<Tool>) -> Vec<SkippedItem> {
        let mut unusable = Vec::new();
        let mut learned = HeaderAnnotations { is_known: true, headers: BTreeMap::new() };
        let mut bytes = 0;
        let mut annotations = |tool: &Tool| {
            let headers = ParamHeaders::of(&tool.input_schema)?;
            let needed = if headers.is_empty() { 0 } else { headers.memory() + tool.name.len() };
            if bytes + needed > MAX_ANNOTATION_BYTES {
                return Err(AnnotationError::ServerTotal { limit: MAX_ANNOTATION_BYTES });
            }
            bytes += needed;
            Ok(headers)
        };
        // Uses one pass: removing the tools one by one would move the rest of the list each time.
        tools.retain_mut(|tool| match annotations(tool) {
            Ok(headers) => {
                if !headers.is_empty() {
                    learned.headers.insert(tool.name.clone(), Arc::new(headers));
                }
                true
            }
            Err(error) => {
                unusable.push(SkippedItem::new(Some(std::mem::take(&mut tool.name)), error));
                false
            }
        });
        *lock(&self.annotations) = learned;
        unusable
    }

    /// Returns the headers of a modern request. They are read from the serialized body, so that they cannot differ from
    /// it.
    pub(super) fn repeated(
        &self,
        method: &Method,
        body: &[u8],
        limits: &Limits,
    ) -> Result<RepeatedHeaders, String> {
        let value = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
        let mut repeated = vec![(HeaderName::from_static(header::METHOD), value(method.as_str())?)];
        if header::name_member(method).is_none() {
            return Ok(repeated);
        }
        let Ok(Incoming::Message(Message::Request(request))) = parse_bytes(body, limits) else {
            return Err("not a request".to_owned());
        };
        let Some(name) = header::name_of(method, &request.params).map_err(|error| error.to_string())? else {
            return Ok(repeated);
        };
        repeated.push((HeaderName::from_static(header::NAME), value(&header::encode(&name))?));
        let headers = lock(&self.annotations).headers.get(&*name).cloned();
        let Some(headers) = headers.filter(|_| *method == Method::ToolsCall) else { return Ok(repeated) };
        let arguments: Option<serde_json::Value> =
            request.params.parse_member("arguments").map_err(|error| error.to_string())?;
        let arguments = arguments.unwrap_or_default();
        for (name, text) in headers.values(&arguments).map_err(|error| error.to_string())? {
            let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
            repeated.push((name, value(&text)?));
        }
        Ok(repeated)
    }
}
