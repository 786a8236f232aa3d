//! The headers that matter, found in one pass over those that came.

use http::header::{HeaderMap, HeaderValue};
use mcp_protocol::codec::header;

/// What came under the names that matter.
#[derive(Default)]
pub(super) struct Headers<'a> {
    pub(super) host: Values<'a>,
    pub(super) origin: Values<'a>,
    pub(super) fetch_site: Values<'a>,
    pub(super) content_type: Values<'a>,
    pub(super) accept: Values<'a>,
    pub(super) last_event: Values<'a>,
    pub(super) ours: Ours<'a>,
}

/// Those of the protocol, which are needed once the body is there.
#[derive(Clone, Copy, Default)]
pub(super) struct Ours<'a> {
    pub(super) session: Values<'a>,
    pub(super) version: Values<'a>,
    pub(super) method: Values<'a>,
    pub(super) name: Values<'a>,
}

impl<'a> Headers<'a> {
    pub(super) fn of(all: &'a HeaderMap) -> Self {
        let mut found = Self::default();
        for (name, value) in all {
            let values = match name.as_str() {
                "host" => &mut found.host,
                "origin" => &mut found.origin,
                "sec-fetch-site" => &mut found.fetch_site,
                "content-type" => &mut found.content_type,
                "accept" => &mut found.accept,
                header::SESSION_ID => &mut found.ours.session,
                header::LAST_EVENT_ID => &mut found.last_event,
                header::PROTOCOL_VERSION => &mut found.ours.version,
                header::METHOD => &mut found.ours.method,
                header::NAME => &mut found.ours.name,
                _ => continue,
            };
            values.push(value);
        }
        found
    }
}

/// The values of one header: the first, and how many there are.
#[derive(Clone, Copy, Default)]
pub(super) struct Values<'a> {
    first: Option<&'a HeaderValue>,
    count: u32,
}

impl<'a> Values<'a> {
    fn push(&mut self, value: &'a HeaderValue) {
        self.first.get_or_insert(value);
        self.count += 1;
    }

    pub(super) fn first(&self) -> Option<&'a HeaderValue> {
        self.first
    }

    /// The first one as text; `None` if there is none, or if it is no text.
    pub(super) fn text(&self) -> Option<&'a str> {
        self.first?.to_str().ok()
    }

    /// True if the header stands there more than once.
    pub(super) fn is_repeated(&self) -> bool {
        self.count > 1
    }

    /// As many values as tell whether there is one, none or several.
    pub(super) fn told<'b>(&self, room: &'b mut [&'a [u8]; 2]) -> &'b [&'a [u8]] {
        *room = [self.first.map_or(&[], HeaderValue::as_bytes); 2];
        &room[..(self.count as usize).min(2)]
    }
}
