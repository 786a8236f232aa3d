//! An in-memory client for tests, which uses the same driver as stdio.

use std::collections::VecDeque;

use mcp_protocol::capabilities::{
    ClientCapabilities, ElicitationCapability, Implementation, RootsCapability, SamplingCapability,
};
use mcp_protocol::codec::line::{Line, Lines};
use mcp_protocol::dialect::{Lower, Lowering, Raise};
use mcp_protocol::errors::{BodyError, ErrorObject};
use mcp_protocol::input::{Ask, InputRequest, InputResponse, InputResponses};
use mcp_protocol::messages::{
    EmptyParams, Id, Incoming, InitializeParams, InitializeResult, Message, Method, parse_bytes, write,
};
use mcp_protocol::meta::Meta;
use mcp_protocol::safe_text::SafeText;
use mcp_protocol::tools::{CallToolParams, CallToolResponse, CallToolResult};
use mcp_protocol::{Dialect, Json, Limits, ProtocolVersion};
use tokio::task::JoinHandle;

use crate::error::Error;
use crate::link::pipe::{PipeReader, PipeWriter, pipe};
use crate::link::{driver, io};
use crate::server::McpServer;

/// The capacity of the pipe in each direction, in bytes.
const PIPE_BYTES: usize = 64 << 10;

/// The error of a [`TestClient`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestError {
    /// The server returned an error response.
    #[error("the server returned an error: {0}")]
    Refused(ErrorObject),
    /// The server sent a message that is not valid.
    #[error("invalid message from the server: {}", SafeText::message(.0))]
    Unreadable(String),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Ended,
    /// Reading from or writing to the server failed.
    #[error("reading from or writing to the server failed: {0}")]
    Link(std::io::Error),
}

impl From<std::io::Error> for TestError {
    fn from(error: std::io::Error) -> Self {
        Self::Link(error)
    }
}

impl From<BodyError> for TestError {
    fn from(error: BodyError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// A function that answers requests from the server: elicitation, sampling, roots.
pub type AskHandler = Box<dyn FnMut(&str, &InputRequest) -> InputResponse + Send>;

/// An in-memory client for tests. Dropping it stops the server.
pub struct TestClient {
    sending: PipeWriter,
    receiving: PipeReader,
    lines: Lines,
    dialect: Dialect,
    envelope: Meta,
    next_id: i64,
    /// Received notifications, oldest first: method and params.
    pub notifications: VecDeque<(Method, Json)>,
    /// Received responses that were not returned yet.
    responses: Vec<(Id, Result<Json, ErrorObject>)>,
    ask_handler: Option<AskHandler>,
    server: JoinHandle<std::io::Result<()>>,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct TestOutcome(pub CallToolResult);

impl TestOutcome {
    /// Returns all text of the result.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.content.iter().filter_map(|block| block.as_text()).collect()
    }

    /// Returns true if the tool failed (`isError`).
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.0.is_error == Some(true)
    }
}

impl McpServer {
    /// Starts the server in memory and returns a client that speaks the newest protocol version.
    ///
    /// # Errors
    /// Fails if the server is not configured correctly.
    pub async fn test_client(self) -> Result<TestClient, Error> {
        let core = self.into_core(usize::MAX)?;
        let (sending, mut reader) = pipe(PIPE_BYTES);
        let (mut writer, receiving) = pipe(PIPE_BYTES);
        let server = tokio::spawn(async move { driver::drive(&core, &mut reader, &mut writer, None).await });
        Ok(TestClient {
            sending,
            receiving,
            lines: Lines::new(&Limits::default()),
            dialect: Dialect::V2026_07_28,
            envelope: Meta::envelope(ProtocolVersion::V2026_07_28, capabilities())
                .client_info(Implementation::new("test", "1")),
            next_id: 1,
            notifications: VecDeque::new(),
            responses: Vec::new(),
            ask_handler: None,
            server,
        })
    }

    /// Starts the server in memory and returns a client that has completed the `initialize` handshake with a legacy
    /// protocol version.
    ///
    /// # Errors
    /// Fails if the server is not configured correctly, or the handshake fails.
    pub async fn legacy_test_client(self, version: ProtocolVersion) -> Result<TestClient, TestError> {
        let unready = |error: Error| TestError::Unreadable(error.to_string());
        let mut client = self.test_client().await.map_err(unready)?;
        client.dialect = version.dialect().filter(|dialect| !dialect.is_modern()).ok_or(TestError::Ended)?;
        let params = InitializeParams::new(version, capabilities(), Implementation::new("test", "1"));
        let _: InitializeResult = client.request(&Method::Initialize, &params).await?;
        client.notify(&Method::Initialized, &EmptyParams::new()).await?;
        Ok(client)
    }
}

fn capabilities() -> ClientCapabilities {
    ClientCapabilities::new()
        .elicitation(ElicitationCapability::both())
        .sampling(SamplingCapability::new())
        .roots(RootsCapability::new())
}

impl TestClient {
    /// Sets the function that answers requests from the server (elicitation, sampling, roots) in both eras. It receives
    /// the key, which is empty in the legacy era, and the request.
    #[doc(alias = "elicitation")]
    #[doc(alias = "sampling")]
    #[doc(alias = "roots")]
    #[must_use]
    pub fn on_ask(
        mut self,
        answer: impl FnMut(&str, &InputRequest) -> InputResponse + Send + 'static,
    ) -> Self {
        self.ask_handler = Some(Box::new(answer));
        self
    }

    /// Replaces the client capabilities of further requests; modern era only.
    pub fn declare(&mut self, capabilities: ClientCapabilities) {
        self.envelope = self.envelope.clone().client_capabilities(capabilities);
    }

    /// Returns the `_meta` of further requests for modification; modern era only.
    pub fn envelope(&mut self) -> &mut Meta {
        &mut self.envelope
    }

    /// Calls a tool, answers its input requests, and returns its result.
    ///
    /// # Errors
    /// Fails if the server returns an error response, or the connection fails.
    pub async fn call(&mut self, tool: &str, arguments: impl Into<Json>) -> Result<TestOutcome, TestError> {
        let mut params = CallToolParams::new(tool).arguments(arguments);
        for _ in 0..20 {
            let id = self.send(&Method::ToolsCall, &params).await?;
            let result = self.response(&id).await?;
            match self.round(&result)? {
                CallToolResponse::Complete(result) => return Ok(TestOutcome(result)),
                CallToolResponse::InputRequired(required) => {
                    let mut responses = InputResponses::new();
                    for (key, request) in required.input_requests.iter().flatten() {
                        let Some(answer) = &mut self.ask_handler else { return Err(TestError::Ended) };
                        responses.insert(key.clone(), answer(key, request));
                    }
                    params.input_responses = Some(responses);
                    params.request_state = required.request_state;
                }
                other => return Err(TestError::Unreadable(format!("{other:?}"))),
            }
        }
        Err(TestError::Unreadable("the server still requested input after 20 rounds".to_owned()))
    }

    /// Parses the result of one round of a call.
    ///
    /// # Errors
    /// Fails if the result is not valid.
    pub fn round(&self, result: &Json) -> Result<CallToolResponse, TestError> {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}}}"#, result.get());
        match parse_bytes(text.as_bytes(), &Limits::default()) {
            Ok(Incoming::Message(Message::Response(response))) => {
                let body = response.outcome.map_err(TestError::Refused)?;
                Ok(CallToolResponse::raise(self.dialect, &body)?)
            }
            _ => Err(TestError::Unreadable(text)),
        }
    }

    /// Sends a request and returns its result.
    ///
    /// # Errors
    /// Fails if the server returns an error response, or the connection fails.
    pub async fn request<T: Raise>(&mut self, method: &Method, params: &impl Lower) -> Result<T, TestError> {
        let id = self.send(method, params).await?;
        let result = self.response(&id).await?;
        Ok(self.dialect.raise_str(result.get())?)
    }

    /// Sends a request and returns its id.
    ///
    /// # Errors
    /// Fails if the connection fails.
    pub async fn send(&mut self, method: &Method, params: &impl Lower) -> Result<Id, TestError> {
        let id = Id::from(self.next_id);
        self.next_id += 1;
        let mut cx = Lowering::to(self.dialect);
        if self.dialect.is_modern() {
            cx = cx.with_meta(&self.envelope);
        }
        let mut out = Vec::new();
        let written = write::request(&mut out, &id, method, &cx.root(params));
        written.map_err(|error| TestError::Unreadable(error.to_string()))?;
        self.send_line(&out).await?;
        Ok(id)
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// Fails if the connection fails.
    pub async fn notify(&mut self, method: &Method, params: &impl Lower) -> Result<(), TestError> {
        let mut out = Vec::new();
        let written = write::notification(&mut out, method, Some(&self.dialect.lower(params)));
        written.map_err(|error| TestError::Unreadable(error.to_string()))?;
        self.send_line(&out).await
    }

    /// Sends a line unchanged.
    ///
    /// # Errors
    /// Fails if the connection fails.
    pub async fn send_line(&mut self, line: &[u8]) -> Result<(), TestError> {
        for mut bytes in [line, b"\n"] {
            while !bytes.is_empty() {
                let count = io::write(&mut self.sending, bytes).await?.count;
                bytes = &bytes[count..];
            }
        }
        Ok(())
    }

    /// Waits for the response to a request. Other messages that arrive first are stored or answered.
    ///
    /// # Errors
    /// Fails if the server returns an error response, or the connection fails.
    pub async fn response(&mut self, id: &Id) -> Result<Json, TestError> {
        loop {
            if let Some(at) = self.responses.iter().position(|(known, _)| known == id) {
                return self.responses.swap_remove(at).1.map_err(TestError::Refused);
            }
            self.receive().await?;
        }
    }

    /// Waits for the next notification.
    ///
    /// # Errors
    /// Fails if the connection fails.
    pub async fn notification(&mut self) -> Result<(Method, Json), TestError> {
        loop {
            if let Some(notification) = self.notifications.pop_front() {
                return Ok(notification);
            }
            self.receive().await?;
        }
    }

    /// Waits for the next line and returns it unchanged.
    ///
    /// # Errors
    /// Fails if the connection fails.
    pub async fn line(&mut self) -> Result<Vec<u8>, TestError> {
        loop {
            if let Some(line) = self.lines.poll_line() {
                return match line {
                    Line::Whole(line) => Ok(line.to_vec()),
                    _ => Err(TestError::Unreadable("a line exceeds the length limit".to_owned())),
                };
            }
            if io::read(&mut self.receiving, self.lines.space(), PIPE_BYTES).await? == 0 {
                return Err(TestError::Ended);
            }
        }
    }

    /// Receives and handles one message.
    async fn receive(&mut self) -> Result<(), TestError> {
        let line = self.line().await?;
        let unreadable = || TestError::Unreadable(String::from_utf8_lossy(&line).into_owned());
        let json = |text: &str| text.parse::<Json>().map_err(|_| unreadable());
        match parse_bytes(&line, &Limits::default()).map_err(|_| unreadable())? {
            Incoming::Message(Message::Response(response)) => {
                let Some(id) = response.id else { return Err(unreadable()) };
                let outcome = match response.outcome {
                    Ok(body) => Ok(json(body.text())?),
                    Err(error) => Err(error),
                };
                self.responses.push((id, outcome));
            }
            Incoming::Message(Message::Notification(notification)) => {
                self.notifications.push_back((notification.method, json(notification.params.text())?));
            }
            Incoming::Message(Message::Request(request)) => {
                let text = format!(
                    r#"{{"method":{:?},"params":{}}}"#,
                    request.method.as_str(),
                    request.params.text()
                );
                let asked: InputRequest = serde_json::from_str(&text).map_err(|_| unreadable())?;
                let Some(answer) = &mut self.ask_handler else { return Err(unreadable()) };
                let response = answer("", &asked);
                let mut out = Vec::new();
                let written = write::response(&mut out, &request.id, &self.dialect.lower(&response));
                written.map_err(|_| unreadable())?;
                self.send_line(&out).await?;
            }
            Incoming::Batch(_) => return Err(unreadable()),
        }
        Ok(())
    }

    /// Closes the client's end and waits until the server stops.
    ///
    /// # Errors
    /// Fails if the server stopped with an error.
    pub async fn close(mut self) -> Result<(), TestError> {
        self.sending.close();
        while self.line().await.is_ok() {}
        match (&mut self.server).await {
            Ok(ended) => Ok(ended?),
            Err(_) => Err(TestError::Ended),
        }
    }
}

impl Drop for TestClient {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl std::fmt::Debug for TestClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestClient").field("dialect", &self.dialect).finish_non_exhaustive()
    }
}

/// Returns the message of an elicitation request, for answers that depend on it.
#[doc(alias = "elicitation")]
#[must_use]
pub fn message_of(request: &InputRequest) -> Option<&str> {
    match &request.ask {
        Ask::Elicit(mcp_protocol::elicitation::ElicitParams::Form(form)) => Some(&form.message),
        Ask::Elicit(mcp_protocol::elicitation::ElicitParams::Url(url)) => Some(&url.message),
        _ => None,
    }
}
