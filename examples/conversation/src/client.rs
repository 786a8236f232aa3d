//! The client side, and the simulated connection to the server.

use std::error::Error;
use std::time::{Duration, Instant};

use mcp_protocol::capabilities::{ClientCapabilities, Implementation};
use mcp_protocol::codec::line::{Line, LineBuffer, Lines};
use mcp_protocol::dialect::{Lower, Lowering};
use mcp_protocol::messages::{
    Body, EmptyParams, Incoming, InitializeParams, Message, Method, PageParams, parse_bytes, write,
};
use mcp_protocol::meta::Meta;
use mcp_protocol::negotiation::{NegotiationOptions, NegotiationResult, StdioAction, StdioClientNegotiation};
use mcp_protocol::peer::{Arrival, Peer, Timeouts};
use mcp_protocol::tools::{CallToolParams, CallToolResult, ListToolsResult, Tool};
use mcp_protocol::{Dialect, Era, Limits, ProtocolVersion};

use crate::server::Server;

/// A client connected to a server over a simulated link with virtual time.
pub(crate) struct Link {
    limits: Limits,
    peer: Peer,
    outbox: LineBuffer,
    lines: Lines,
    server: Server,
    now: Instant,
    latency: Duration,
}

type Print<'a> = &'a mut dyn FnMut(String);

impl Link {
    pub(crate) fn new(now: Instant, latency: Duration) -> Self {
        let limits = Limits::default();
        Self {
            peer: Peer::client(limits.clone()),
            outbox: LineBuffer::default(),
            lines: Lines::new(&limits),
            server: Server::new(&limits),
            limits,
            now,
            latency,
        }
    }

    /// Negotiates the era with `server/discover` and, if needed, `initialize`.
    pub(crate) fn negotiate(
        &mut self,
        preferred: &ProtocolVersion,
        print: Print<'_>,
    ) -> Result<NegotiationResult, Box<dyn Error>> {
        let options = NegotiationOptions::default().versions([preferred.clone()]);
        let mut negotiation = StdioClientNegotiation::new(options, self.limits.clone(), self.now);
        loop {
            let Some(action) = negotiation.poll_action() else {
                return Err("the negotiation has no next action".into());
            };
            match action {
                StdioAction::Probe { id, version } => {
                    let envelope = Meta::envelope(version, capabilities()).client_info(name());
                    let params = EmptyParams::new().meta(envelope);
                    self.outbox.line(|out| write::request(out, &id, &Method::Discover, &params))?;
                }
                StdioAction::Initialize { id, version } => {
                    let params = InitializeParams::new(version, capabilities(), name());
                    self.outbox.line(|out| write::request(out, &id, &Method::Initialize, &params))?;
                }
                StdioAction::Initialized => {
                    self.outbox.line(|out| write::notification(out, &Method::Initialized, None))?;
                    self.exchange(print);
                    continue;
                }
                StdioAction::Succeeded(negotiation) => return Ok(*negotiation),
                StdioAction::Failed(error) => return Err(error.into()),
                other => return Err(format!("unexpected action: {other:?}").into()),
            }
            self.exchange(print);
            while let Some(Line::Whole(line)) = self.lines.poll_line() {
                if let Incoming::Message(message) = parse_bytes(line, &self.limits)? {
                    negotiation.handle_message(&message, self.now);
                }
            }
        }
    }

    pub(crate) fn list_tools(
        &mut self,
        negotiation: &NegotiationResult,
        print: Print<'_>,
    ) -> Result<Vec<Tool>, Box<dyn Error>> {
        let list: ListToolsResult =
            self.request(negotiation, Method::ToolsList, &PageParams::new(), print, |dialect, body| {
                Ok(dialect.raise(body)?)
            })?;
        Ok(list.tools)
    }

    pub(crate) fn call(
        &mut self,
        negotiation: &NegotiationResult,
        tool: &str,
        arguments: serde_json::Value,
        print: Print<'_>,
    ) -> Result<String, Box<dyn Error>> {
        let params = CallToolParams::new(tool).arguments(arguments);
        let result: CallToolResult =
            self.request(negotiation, Method::ToolsCall, &params, print, |dialect, body| {
                Ok(dialect.raise(body)?)
            })?;
        let text = result.content.first().and_then(|block| block.as_text()).ok_or("no text")?;
        Ok(text.to_owned())
    }

    /// Sends a request and reads its response, through all layers.
    fn request<P: Lower, R>(
        &mut self,
        negotiation: &NegotiationResult,
        method: Method,
        params: &P,
        print: Print<'_>,
        raise: impl FnOnce(Dialect, &Body<'_>) -> Result<R, Box<dyn Error>>,
    ) -> Result<R, Box<dyn Error>> {
        let dialect = negotiation.version.dialect().ok_or("unknown protocol version")?;
        let envelope = Meta::envelope(negotiation.version.clone(), capabilities()).client_info(name());
        let lowering = match negotiation.era() {
            Era::Modern => Lowering::to(dialect).with_meta(&envelope),
            Era::Legacy => Lowering::to(dialect),
        };
        let call = self.peer.open(&method, Timeouts::default(), self.now)?;
        self.outbox.line(|out| write::request(out, &call.id(), &method, &lowering.root(params)))?;
        self.exchange(print);
        let Some(Line::Whole(line)) = self.lines.poll_line() else { return Err("no response".into()) };
        let Incoming::Message(message) = parse_bytes(line, &self.limits)? else {
            return Err("unexpected batch".into());
        };
        match (self.peer.handle_message(&message, self.now), &message) {
            (Arrival::Response(answered), Message::Response(response)) if answered == call => {
                match &response.outcome {
                    Ok(result) => raise(dialect, result),
                    Err(error) => Err(error.clone().into()),
                }
            }
            (arrival, _) => Err(format!("not a response: {arrival:?}").into()),
        }
    }

    /// Transfers the written bytes to the server, and its responses back.
    fn exchange(&mut self, print: Print<'_>) {
        self.now += self.latency;
        show("→", self.outbox.bytes(), print);
        let answers = self.server.receive(self.outbox.bytes(), self.now);
        self.outbox.advance(usize::MAX);
        self.now += self.latency;
        show("←", answers, print);
        self.lines.push(answers);
        self.server.sent();
    }
}

fn show(arrow: &str, bytes: &[u8], print: Print<'_>) {
    for line in String::from_utf8_lossy(bytes).lines() {
        print(format!("{arrow} {line}"));
    }
}

fn capabilities() -> ClientCapabilities {
    ClientCapabilities::new()
}

fn name() -> Implementation {
    Implementation::new("conversation-client", env!("CARGO_PKG_VERSION"))
}
