//! `_meta`: metadata of messages and their parts.
//!
//! Keys known to this crate are fields; all others are preserved as received. In the modern era, the `_meta` of every
//! request states the protocol version, the capabilities and the name of the client. These keys are the *envelope* of
//! the request.
//!
//! Spec: MCP 2026-07-28, basic.

use crate::capabilities::{ClientCapabilities, Implementation};
use crate::dialect::{Fill, Raising, bit};
use crate::json::Json;
use crate::json::read::{Read, Reader};
use crate::logging::LogLevel;
use crate::macros::object;
use crate::messages::{Id, ProgressToken};
use crate::tasks::RelatedTask;
use crate::version::ProtocolVersion;

/// Key whose presence marks a modern request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// Key of the client capabilities.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

object! {
    /// The `_meta` member of a body, tool, content block and so on.
    ///
    /// ```
    /// use mcp_protocol::meta::Meta;
    ///
    /// let meta: Meta = serde_json::from_str(r#"{"progressToken":7,"com.example/trace":[1]}"#)?;
    /// assert_eq!(meta.progress_token, Some(7.into()));
    /// assert_eq!(meta.other.get("com.example/trace").unwrap().get(), "[1]");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[doc(alias = "_meta")]
    #[doc(alias = "envelope")]
    pub struct Meta {
        optional {
            /// Protocol version of this request; modern era.
            protocol_version: ProtocolVersion = "io.modelcontextprotocol/protocolVersion",
            /// Client capabilities for this request; modern era.
            client_capabilities: Box<ClientCapabilities> = "io.modelcontextprotocol/clientCapabilities",
            /// Client name and version, self-reported; modern era.
            client_info: Box<Implementation> = "io.modelcontextprotocol/clientInfo",
            /// Minimum severity of log messages about this request; modern era.
            log_level: LogLevel = "io.modelcontextprotocol/logLevel",
            /// Server name and version in results, self-reported; modern era.
            server_info: Box<Implementation> = "io.modelcontextprotocol/serverInfo",
            /// Id of the notification stream; modern era.
            subscription_id: Id = "io.modelcontextprotocol/subscriptionId",
            /// Related task; 2025-11-25 only.
            related_task: RelatedTask = "io.modelcontextprotocol/related-task",
            /// Text for the model while a task is running; 2025-11-25 only.
            model_immediate_response: String = "io.modelcontextprotocol/model-immediate-response",
            /// Progress token; its presence requests progress notifications.
            progress_token: ProgressToken = "progressToken",
            /// `traceparent` of W3C Trace Context.
            traceparent: String = "traceparent",
            /// `tracestate` of W3C Trace Context.
            tracestate: String = "tracestate",
            /// `baggage` of W3C Baggage.
            baggage: String = "baggage",
        }
        open = other;
    }
}

impl Meta {
    pub(crate) const PROGRESS_TOKEN: u64 = bit(Self::MEMBERS, "progressToken");

    /// Creates the envelope of a modern request.
    #[must_use]
    pub fn envelope(version: ProtocolVersion, capabilities: ClientCapabilities) -> Self {
        Self::new().protocol_version(version).client_capabilities(capabilities)
    }

    /// Adds a member with any key.
    ///
    /// ```
    /// # use mcp_protocol::meta::Meta;
    /// let meta = Meta::new().with("com.example/tenant", serde_json::json!("acme"));
    /// ```
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Json>) -> Self {
        self.other.insert(key, value);
        self
    }

    /// Returns the required keys of a modern envelope that are missing here.
    #[must_use]
    pub fn missing_from_envelope(&self) -> Vec<&'static str> {
        let mut missing = Vec::new();
        if self.protocol_version.is_none() {
            missing.push(PROTOCOL_VERSION);
        }
        if self.client_capabilities.is_none() {
            missing.push(CLIENT_CAPABILITIES);
        }
        missing
    }

    /// Returns a mask with one bit per known member that is set.
    pub(crate) fn present(&self) -> u64 {
        let set = [
            self.protocol_version.is_some(),
            self.client_capabilities.is_some(),
            self.client_info.is_some(),
            self.log_level.is_some(),
            self.server_info.is_some(),
            self.subscription_id.is_some(),
            self.related_task.is_some(),
            self.model_immediate_response.is_some(),
            self.progress_token.is_some(),
            self.traceparent.is_some(),
            self.tracestate.is_some(),
            self.baggage.is_some(),
        ];
        set.iter().enumerate().fold(0, |mask, (at, is_set)| mask | (u64::from(*is_set) << at))
    }

    /// Moves the members of `other` into this value, replacing known members that are set in both.
    fn absorb(&mut self, other: Self) {
        macro_rules! take {
            ($($field:ident)*) => { $(if other.$field.is_some() { self.$field = other.$field; })* };
        }
        take! {
            protocol_version client_capabilities client_info log_level server_info subscription_id related_task
            model_immediate_response progress_token traceparent tracestate baggage
        }
        for (key, value) in other.other.iter() {
            self.other.push(key.to_owned(), value.clone());
        }
    }

    /// Returns true if there are no members other than those in `lacks`.
    pub(crate) fn is_empty_without(&self, lacks: u64) -> bool {
        self.present() & !lacks == 0 && self.other.is_empty()
    }
}

/// A `_meta` member, and whether it is an open map: in legacy revisions and in parts of a body, a key known to this
/// crate may have another meaning. In an open map, an invalid value of a known key is preserved as an unknown member.
pub(crate) struct Part<'a>(pub(crate) &'a mut Option<Box<Meta>>, pub(crate) bool);

impl Fill for Part<'_> {
    fn fill(&mut self, from: &mut Reader<'_>, how: Raising) -> Read<()> {
        let Self(place, is_open) = self;
        let before = from.clone();
        let whole = place.fill(from, how);
        if whole.is_ok() || !*is_open || before.clone().peek() != Some(b'{') {
            return whole;
        }
        *from = before;
        let meta = place.insert(Box::new(Meta::new()));
        from.map(&mut |from, key| {
            let value = Json::from_valid(from.any()?);
            let quoted = serde_json::to_string(&key)?;
            match Raising::STRICT.text::<Meta>(&format!("{{{quoted}:{}}}", value.get())) {
                Ok(single) if single.present() & meta.present() != 0 => {
                    return Err(serde::de::Error::custom(format_args!("duplicate field `{key}`")));
                }
                Ok(single) => meta.absorb(single),
                Err(_) => meta.other.push(key.into_owned(), value),
            }
            Ok(())
        })
    }
}

/// Returns true for keys that any revision of the specification reserves: `progressToken`, the keys of W3C Trace
/// Context and Baggage, and keys with a prefix that has `modelcontextprotocol` or `mcp` as its second label, or as any
/// label but the last.
///
/// ```
/// use mcp_protocol::meta::is_reserved;
///
/// assert!(is_reserved("io.modelcontextprotocol/tasks"));
/// assert!(is_reserved("tools.mcp.com/x"));
/// assert!(is_reserved("progressToken"));
/// assert!(!is_reserved("com.example.mcp/x"));
/// ```
#[must_use]
pub fn is_reserved(key: &str) -> bool {
    let Some((prefix, _)) = key.rsplit_once('/') else {
        return matches!(key, "progressToken" | "traceparent" | "tracestate" | "baggage");
    };
    let labels: Vec<&str> = prefix.split('.').collect();
    labels.iter().enumerate().any(|(at, label)| {
        matches!(*label, "modelcontextprotocol" | "mcp") && (at == 1 || at + 1 < labels.len())
    })
}

/// Returns true for keys that match the grammar of `_meta` keys: an optional prefix, which consists of labels separated
/// by `.` and ends in `/`, then a name.
#[must_use]
pub fn is_valid_key(key: &str) -> bool {
    let alphanumeric = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let label = |label: &str| {
        label.starts_with(|c: char| c.is_ascii_alphabetic())
            && alphanumeric(label.chars().next_back())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let name = |name: &str| {
        name.is_empty()
            || alphanumeric(name.chars().next())
                && alphanumeric(name.chars().next_back())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    match key.split_once('/') {
        Some((prefix, rest)) => prefix.split('.').all(label) && name(rest),
        None => name(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_meta_keys_are_kept_and_known_ones_are_typed() {
        let text = r#"{"io.modelcontextprotocol/logLevel":"debug","traceparent":"00-1","a/b":{"c":[1e999]}}"#;
        let meta: Meta = serde_json::from_str(text).unwrap();
        assert_eq!(meta.log_level, Some(LogLevel::Debug));
        assert_eq!(serde_json::to_string(&meta).unwrap(), text);
    }

    #[test]
    fn known_meta_key_with_another_type_is_kept_as_raw_json() {
        let text = r#"{"content":[],"_meta":{"baggage":["a"],"progressToken":7,"x":1}}"#;
        let result: crate::tools::CallToolResult = crate::Dialect::V2025_06_18.raise_str(text).unwrap();
        let meta = result.meta.as_deref().unwrap();
        assert_eq!((meta.progress_token.clone(), meta.baggage.as_ref()), (Some(7.into()), None));
        assert_eq!(meta.other.get("baggage").unwrap().get(), r#"["a"]"#);
        let back = serde_json::to_value(crate::Dialect::V2025_06_18.lower(&result)).unwrap();
        assert_eq!(back, serde_json::from_str::<serde_json::Value>(text).unwrap());
        for bad in [
            r#"{"content":[],"_meta":7}"#,
            r#"{"content":[],"_meta":{"baggage":[],"baggage":"b","baggage":"c"}}"#,
        ] {
            assert!(
                crate::Dialect::V2025_06_18.raise_str::<crate::tools::CallToolResult>(bad).is_err(),
                "{bad}"
            );
        }
    }

    #[test]
    fn bits_of_set_members_follow_the_declaration() {
        let text = Meta::MEMBERS.iter().map(|key| format!("{key:?}:null")).collect::<Vec<_>>().join(",");
        let none: Meta = serde_json::from_str(&format!("{{{text}}}")).unwrap();
        assert_eq!(none.present(), 0);
        assert_eq!(Meta::new().progress_token(1).present(), Meta::PROGRESS_TOKEN);
        assert_eq!(Meta::new().baggage("x").present(), bit(Meta::MEMBERS, "baggage"));
        assert_eq!(Meta::MEMBERS.len(), 12);
    }

    #[test]
    fn meta_keys_follow_the_grammar() {
        for good in ["a", "com.example/x", "io.modelcontextprotocol/", "a-b.c/x_y.z", "", "9"] {
            assert!(is_valid_key(good), "{good}");
        }
        for bad in ["/x", "1a/x", "a-/x", "a..b/x", "a/b/c", "-a", "a.", "ä"] {
            assert!(!is_valid_key(bad), "{bad}");
        }
        for reserved in ["dev.mcp/", "com.mcp.tools/x", "modelcontextprotocol.io/x"] {
            assert!(is_reserved(reserved), "{reserved}");
        }
        for free in ["com.example.mcp/x", "mcp/x", "x", "com.example/mcp"] {
            assert!(!is_reserved(free), "{free}");
        }
    }
}
