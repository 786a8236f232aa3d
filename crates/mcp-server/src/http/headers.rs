//! The relevant request headers, collected in one pass.

use http::header::{ACCEPT, HeaderMap, HeaderValue};
use mcp_protocol::codec::header;

/// The relevant request headers.
#[derive(Default)]
pub(super) struct RequestHeaders<'a> {
    pub(super) host: HeaderValues<'a>,
    pub(super) origin: HeaderValues<'a>,
    pub(super) fetch_site: HeaderValues<'a>,
    pub(super) content_type: HeaderValues<'a>,
    pub(super) accept: HeaderValues<'a>,
    pub(super) last_event: HeaderValues<'a>,
    pub(super) mcp: McpHeaders<'a>,
}

/// The headers of MCP. Unlike the others, they are still needed after the body was read.
#[derive(Clone, Copy, Default)]
pub(super) struct McpHeaders<'a> {
    pub(super) session: HeaderValues<'a>,
    pub(super) version: HeaderValues<'a>,
    pub(super) method: HeaderValues<'a>,
    pub(super) name: HeaderValues<'a>,
}

impl<'a> RequestHeaders<'a> {
    pub(super) fn of(all: &'a HeaderMap) -> Self {
        let mut found = Self::default();
        for (name, value) in all {
            let values = match name.as_str() {
                "host" => &mut found.host,
                "origin" => &mut found.origin,
                "sec-fetch-site" => &mut found.fetch_site,
                "content-type" => &mut found.content_type,
                "accept" => &mut found.accept,
                header::SESSION_ID => &mut found.mcp.session,
                header::LAST_EVENT_ID => &mut found.last_event,
                header::PROTOCOL_VERSION => &mut found.mcp.version,
                header::METHOD => &mut found.mcp.method,
                header::NAME => &mut found.mcp.name,
                _ => continue,
            };
            values.push(value);
        }
        found
    }

    /// Returns true if the content type is JSON. A "simple" cross-site request of a browser cannot have this content
    /// type.
    pub(super) fn is_json(&self) -> bool {
        let Some(value) = self.content_type.first() else { return false };
        if value == "application/json" {
            return true;
        }
        let value = value.to_str().unwrap_or("");
        value.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/json")
    }

    /// Returns true if `Accept` is absent or allows JSON or SSE.
    pub(super) fn accepts_response(&self, all: &HeaderMap) -> bool {
        // Fast path: the value that the specification requires.
        if self.accept.first().is_none_or(|value| value == "application/json, text/event-stream") {
            return true;
        }
        accepts_one_of(all, &["application/json", "text/event-stream", "application/*", "text/*", "*/*"])
    }
}

/// Returns true if `Accept` is absent or allows SSE.
pub(super) fn accepts_events(all: &HeaderMap) -> bool {
    !all.contains_key(ACCEPT) || accepts_one_of(all, &["text/event-stream", "text/*", "*/*"])
}

fn accepts_one_of(all: &HeaderMap, kinds: &[&str]) -> bool {
    let values = all.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let kind = range.split(';').next().unwrap_or("").trim();
        kinds.iter().any(|known| kind.eq_ignore_ascii_case(known))
    })
}

/// The first value of a header, and the number of values.
#[derive(Clone, Copy, Default)]
pub(super) struct HeaderValues<'a> {
    first: Option<&'a HeaderValue>,
    count: u32,
}

impl<'a> HeaderValues<'a> {
    fn push(&mut self, value: &'a HeaderValue) {
        self.first.get_or_insert(value);
        self.count += 1;
    }

    pub(super) fn first(&self) -> Option<&'a HeaderValue> {
        self.first
    }

    /// Returns the first value as text; `None` if it is absent or not visible ASCII.
    pub(super) fn text(&self) -> Option<&'a str> {
        self.first?.to_str().ok()
    }

    /// Returns true if the header occurs more than once.
    pub(super) fn is_repeated(&self) -> bool {
        self.count > 1
    }

    /// Returns a slice whose length is the number of values, but at most 2. It contains only copies of the first value:
    /// the caller uses it to distinguish none, one and several values.
    pub(super) fn up_to_two<'b>(&self, room: &'b mut [&'a [u8]; 2]) -> &'b [&'a [u8]] {
        *room = [self.first.map_or(&[], HeaderValue::as_bytes); 2];
        &room[..(self.count as usize).min(2)]
    }
}
