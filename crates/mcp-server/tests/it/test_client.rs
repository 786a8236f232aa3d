//! A client for the tests of this crate, which must not use mcp-client: it sees single messages and answers questions.

use std::collections::VecDeque;

use mcp_server::protocol::capabilities::{
    ClientCapabilities, ElicitationCapability, Implementation, RootsCapability, SamplingCapability,
};
use mcp_server::protocol::codec::line::{Line, Lines};
use mcp_server::protocol::dialect::{Lower, Lowering, Raise};
use mcp_server::protocol::errors::{BodyError, ErrorObject};
use mcp_server::protocol::input::{Ask, InputRequest, InputResponse, InputResponses};
use mcp_server::protocol::messages::{
    EmptyParams, Id, Incoming, InitializeParams, InitializeResult, Message, Method, parse_bytes, write,
};
use mcp_server::protocol::meta::Meta;
use mcp_server::protocol::tools::{CallToolParams, CallToolResponse, CallToolResult};
use mcp_server::protocol::{Dialect, Json, Limits, ProtocolVersion};
use mcp_server::{Error, McpServer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The error of a [`TestClient`].
#[derive(Debug)]
#[expect(dead_code, reason = "printed when a test fails")]
pub(crate) enum TestError {
    /// The server returned an error response.
    Refused(ErrorObject),
    /// The server sent a message that is not valid.
    Unreadable(String),
    /// The server closed the connection.
    Ended,
    /// Reading from or writing to the server failed.
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

/// A function that answers requests of the server: elicitation, sampling, roots.
pub(crate) type AskHandler = Box<dyn FnMut(&str, &InputRequest) -> InputResponse + Send>;

/// An in-memory client for tests. Dropping it stops the server.
pub(crate) struct TestClient {
    sending: Box<dyn AsyncWrite + Send + Unpin>,
    receiving: Box<dyn AsyncRead + Send + Unpin>,
    lines: Lines,
    dialect: Dialect,
    envelope: Meta,
    next_id: i64,
    /// Received notifications, oldest first: method and params.
    pub(crate) notifications: VecDeque<(Method, Json)>,
    /// Received responses that were not returned yet.
    responses: Vec<(Id, Result<Json, ErrorObject>)>,
    ask_handler: Option<AskHandler>,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TestOutcome(pub(crate) CallToolResult);

impl TestOutcome {
    /// Returns all text of the result.
    pub(crate) fn text(&self) -> String {
        self.0.content.iter().filter_map(|block| block.as_text()).collect()
    }

    /// Returns true if the tool failed (`isError`).
    pub(crate) fn is_error(&self) -> bool {
        self.0.is_error == Some(true)
    }
}

/// Starts servers in memory.
pub(crate) trait TestServer {
    /// Returns a client of the newest protocol version.
    async fn test_client(self) -> Result<TestClient, Error>;

    /// Returns a client that has completed the `initialize` handshake with a legacy protocol version.
    async fn legacy_test_client(self, version: ProtocolVersion) -> Result<TestClient, TestError>;
}

impl TestServer for McpServer {
    async fn test_client(self) -> Result<TestClient, Error> {
        let (receiving, sending) = self.in_memory()?;
        Ok(TestClient {
            sending: Box::new(sending),
            receiving: Box::new(receiving),
            lines: Lines::new(&Limits::default()),
            dialect: Dialect::V2026_07_28,
            envelope: Meta::envelope(ProtocolVersion::V2026_07_28, capabilities())
                .client_info(Implementation::new("test", "1")),
            next_id: 1,
            notifications: VecDeque::new(),
            responses: Vec::new(),
            ask_handler: None,
        })
    }

    async fn legacy_test_client(self, version: ProtocolVersion) -> Result<TestClient, TestError> {
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
    /// Sets the function that answers requests of the server (elicitation, sampling, roots) in both eras. It receives
    /// the key, which is empty in the legacy era, and the request.
    pub(crate) fn on_ask(
        mut self,
        answer: impl FnMut(&str, &InputRequest) -> InputResponse + Send + 'static,
    ) -> Self {
        self.ask_handler = Some(Box::new(answer));
        self
    }

    /// Replaces the client capabilities of further requests; modern era only.
    pub(crate) fn declare(&mut self, capabilities: ClientCapabilities) {
        self.envelope = self.envelope.clone().client_capabilities(capabilities);
    }

    /// Returns the `_meta` of further requests for modification; modern era only.
    pub(crate) fn envelope(&mut self) -> &mut Meta {
        &mut self.envelope
    }

    /// Calls a tool, answers its input requests, and returns its result.
    pub(crate) async fn call(
        &mut self,
        tool: &str,
        arguments: impl Into<Json>,
    ) -> Result<TestOutcome, TestError> {
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
        Err(TestError::Unreadable("the call did not end after 20 rounds".to_owned()))
    }

    /// Parses the result of one round of a call.
    pub(crate) fn round(&self, result: &Json) -> Result<CallToolResponse, TestError> {
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
    pub(crate) async fn request<T: Raise>(
        &mut self,
        method: &Method,
        params: &impl Lower,
    ) -> Result<T, TestError> {
        let id = self.send(method, params).await?;
        let result = self.response(&id).await?;
        Ok(self.dialect.raise_str(result.get())?)
    }

    /// Sends a request and returns its id.
    pub(crate) async fn send(&mut self, method: &Method, params: &impl Lower) -> Result<Id, TestError> {
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
    pub(crate) async fn notify(&mut self, method: &Method, params: &impl Lower) -> Result<(), TestError> {
        let mut out = Vec::new();
        let written = write::notification(&mut out, method, Some(&self.dialect.lower(params)));
        written.map_err(|error| TestError::Unreadable(error.to_string()))?;
        self.send_line(&out).await
    }

    /// Sends a line unchanged.
    pub(crate) async fn send_line(&mut self, line: &[u8]) -> Result<(), TestError> {
        for bytes in [line, b"\n"] {
            self.sending.write_all(bytes).await?;
        }
        Ok(())
    }

    /// Waits for the response to a request. Other messages that arrive first are stored or answered.
    pub(crate) async fn response(&mut self, id: &Id) -> Result<Json, TestError> {
        loop {
            if let Some(at) = self.responses.iter().position(|(known, _)| known == id) {
                return self.responses.swap_remove(at).1.map_err(TestError::Refused);
            }
            self.receive().await?;
        }
    }

    /// Waits for the next notification.
    pub(crate) async fn notification(&mut self) -> Result<(Method, Json), TestError> {
        loop {
            if let Some(notification) = self.notifications.pop_front() {
                return Ok(notification);
            }
            self.receive().await?;
        }
    }

    /// Waits for the next line and returns it unchanged.
    pub(crate) async fn line(&mut self) -> Result<Vec<u8>, TestError> {
        loop {
            if let Some(line) = self.lines.poll_line() {
                return match line {
                    Line::Whole(line) => Ok(line.to_vec()),
                    _ => Err(TestError::Unreadable("a line exceeds the length limit".to_owned())),
                };
            }
            if self.receiving.read_buf(self.lines.space()).await? == 0 {
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
    pub(crate) async fn close(mut self) -> Result<(), TestError> {
        self.sending.shutdown().await?;
        while self.line().await.is_ok() {}
        Ok(())
    }
}

impl std::fmt::Debug for TestClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestClient").field("dialect", &self.dialect).finish_non_exhaustive()
    }
}

/// Returns the message of an elicitation request, for answers that depend on it.
pub(crate) fn message_of(request: &InputRequest) -> Option<&str> {
    match &request.ask {
        Ask::Elicit(mcp_server::protocol::elicitation::ElicitParams::Form(form)) => Some(&form.message),
        Ask::Elicit(mcp_server::protocol::elicitation::ElicitParams::Url(url)) => Some(&url.message),
        _ => None,
    }
}
