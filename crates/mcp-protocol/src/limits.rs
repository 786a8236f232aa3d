//! All limits of this crate.
//!
//! | field | default | meaning |
//! |---|---|---|
//! | `message` | 16 MiB | bytes of one message: a line, an SSE event or a body. Return larger results as resources. |
//! | `id` | 1 KiB | bytes of a string id. The id is stored while its request is in flight. |
//! | `batch` | 100 | messages in one batch (2025-03-26). |
//! | `in_flight` | 1000 | requests in flight in one direction of one connection. |
//! | `sample` | 256 B | bytes that errors quote from a line that is not a message. |
//! | `noise_lines`, `noise_bytes` | 1000, 1 MiB | lines that are not messages, and their bytes, per negotiation. |
//! | `header` | 8 KiB | bytes of the id, and of the type, of an SSE event. The HTTP library limits HTTP headers. |
//! | `held` | 16 | requests from the server that are queued until its era is known. |
//!
//! The following limits are fixed:
//!
//! | limit | value | meaning or reason |
//! |---|---|---|
//! | [`MAX_DEPTH`] | 127 | nesting levels of a message; serde_json has the same limit. |
//! | search for an id | 1 KiB | beginning of an overlong message that is searched for its id. |
//! | overlong line or event | 4 × `message` | up to this size, it is skipped; a longer one ends the stream. |
//! | idle buffer | 64 KiB | capacity that an idle buffer keeps; more is released after the next small message. |
//! | error responses to unreadable lines | 10 | after these, the server closes the connection. |
//! | logins in one negotiation | 2 | prevents an endless login loop. |
//! | first SSE event | 10 s | later, the stream does not count as the HTTP+SSE transport (2024-11-05). |
//! | progress | burst of 8, then 10 per second | prevents flooding the client. The last notification is always sent. |
//! | cached envelope | 4 KiB | maximum size. An envelope identical to the cached one is not parsed again. |
//! | arguments as headers | 100 | per tool; HTTP servers accept about this many headers in total. |
//! | paths of these arguments | 64 KiB | per tool; each argument stores its whole path in the schema. |
//! | [`MAX_URI_BYTES`] | 16 KiB | a URI stored for the peer, such as the URI of a subscription. |
//! | displayed text of a peer | 80, 1000 | characters of a name and of a message in errors and logs. |
//! | names | 256, 64 | characters of a server name, and of a callable name (the lowest limit of model APIs). |

use std::time::Duration;

/// Bytes of an overlong message that are searched for its id.
pub(crate) const MAX_SALVAGE_BYTES: usize = 1 << 10;

/// Capacity of an idle buffer, in bytes.
pub(crate) const IDLE_BUFFER_BYTES: usize = 64 << 10;

/// Number of error responses to unreadable lines before a server closes the connection.
pub(crate) const MAX_PARSE_ERROR_RESPONSES: u32 = 10;

/// Maximum number of logins per negotiation.
pub(crate) const MAX_LOGINS: u8 = 2;

/// Timeout for the first event of a stream that may belong to the HTTP+SSE transport (2024-11-05).
pub(crate) const FIRST_EVENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of progress notifications that may be sent in a burst.
pub(crate) const PROGRESS_BURST: u32 = 8;

/// Minimum interval between progress notifications after the burst.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum size of a cached envelope, in bytes.
pub(crate) const MAX_CACHED_ENVELOPE_BYTES: usize = 4 << 10;

/// Maximum number of tool arguments that are sent as headers.
pub(crate) const MAX_PARAM_HEADERS: usize = 100;

/// Maximum total size of the paths of one tool's arguments that are sent as headers, in bytes.
pub(crate) const MAX_PARAM_PATH_BYTES: usize = 64 << 10;

/// Maximum number of displayed characters of a peer's name.
pub(crate) const MAX_NAME_CHARACTERS: usize = 80;

/// Maximum number of displayed characters of a peer's message.
pub(crate) const MAX_MESSAGE_CHARACTERS: usize = 1000;

/// Maximum number of characters of a server name.
pub(crate) const MAX_SERVER_NAME_CHARACTERS: usize = 256;

/// Maximum number of characters of a callable name.
pub(crate) const MAX_CALLABLE_NAME_CHARACTERS: usize = 64;

/// Maximum size of a URI that is stored for the peer, in bytes.
pub const MAX_URI_BYTES: usize = 16 << 10;

/// Maximum nesting depth of a message, including its own braces. The 128th level is rejected.
pub const MAX_DEPTH: usize = 127;

/// The limits of one connection. See the [table](self) for defaults and reasons.
///
/// ```
/// let limits = mcp_protocol::Limits::default().message(1 << 20).in_flight(64);
/// assert_eq!(limits.in_flight, 64);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum bytes per message.
    pub message: usize,
    /// Maximum bytes of a string id.
    pub id: usize,
    /// Maximum messages per batch.
    pub batch: usize,
    /// Maximum requests in flight per direction.
    pub in_flight: usize,
    /// Maximum bytes kept as a sample of input that is not a message.
    pub sample: usize,
    /// Maximum number of lines that are not messages before a negotiation fails.
    pub noise_lines: usize,
    /// Maximum total number of bytes in lines that are not messages before a negotiation fails.
    pub noise_bytes: usize,
    /// Maximum bytes of the id or type of an SSE event.
    pub header: usize,
    /// Maximum number of requests from the server that are queued during a negotiation.
    pub held: usize,
}

macro_rules! setters {
    ($($name:ident)*) => { $(
        #[doc = concat!("Sets `", stringify!($name), "`.")]
        #[must_use]
        pub fn $name(mut self, value: usize) -> Self {
            self.$name = value;
            self
        }
    )* };
}

impl Limits {
    /// Returns the size in bytes up to which an overlong message is skipped. If the message is longer, the stream ends.
    pub(crate) fn endless(&self) -> usize {
        self.message.saturating_mul(4)
    }

    setters! { message id batch in_flight sample noise_lines noise_bytes header held }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: 16 << 20,
            id: 1 << 10,
            batch: 100,
            in_flight: 1000,
            sample: 256,
            noise_lines: 1000,
            noise_bytes: 1 << 20,
            header: 8 << 10,
            held: 16,
        }
    }
}
