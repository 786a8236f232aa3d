//! All limits of this crate.
//!
//! | field | default | why |
//! |---|---|---|
//! | `message` | 16 MiB | one message: a line, an SSE event or a body. Return larger results as resources. |
//! | `id` | 1 KiB | an id is stored while its request is in flight. |
//! | `batch` | 100 | messages in one batch (2025-03-26). |
//! | `in_flight` | 1000 | requests in flight in one direction of one connection. |
//! | `sample` | 256 B | prefix of a line that is not a message, shown in errors. |
//! | `noise_lines`, `noise_bytes` | 1000, 1 MiB | output that is not JSON, tolerated during a negotiation. |
//! | `header` | 8 KiB | the id and the type of an SSE event. HTTP headers are limited by the HTTP library. |
//! | `held` | 16 | requests from the server queued until its era is known. |
//!
//!
//! The following limits are fixed:
//!
//! | limit | value | why |
//! |---|---|---|
//! | [`MAX_DEPTH`] | 127 | nesting levels of a message; the same as in serde_json. |
//! | search for an id | 1 KiB | of an overlong message: ids are usually near the beginning. |
//! | overlong line or event | 4 × `message` | is skipped up to this size; beyond it, the stream is closed. |
//! | idle buffer | 64 KiB | memory of a large message is released after the next small one. |
//! | error responses to unreadable lines | 10 | after that the server closes the connection. |
//! | logins in one negotiation | 2 | prevents an endless login loop. |
//! | first SSE event | 10 s | a stream without an event is not the HTTP+SSE transport (2024-11-05). |
//! | progress | burst of 8, then 10 per second | a tool must not flood the client; the last one is always sent. |
//! | cached envelope | 4 KiB | the last envelope is cached, so that an identical one is not parsed again. |
//! | arguments as headers | 100 | per tool; HTTP servers accept about as many headers in total. |
//! | [`MAX_URI_BYTES`] | 16 KiB | a URI stored for the peer, such as that of a subscription. |
//! | paths of such arguments | 64 KiB | per tool: a long common path must not be stored once per argument. |
//! | displayed text of a peer | 80, 1000 | characters of a name and of a message in errors and logs. |
//! | names | 256, 64 | characters of a server name and of a callable name (the lowest limit of common model APIs). |

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

/// Maximum total size of the paths of these arguments, in bytes.
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
    /// Maximum number of bytes in lines that are not messages before a negotiation fails.
    pub noise_bytes: usize,
    /// Maximum bytes of the id or type of an SSE event.
    pub header: usize,
    /// Maximum requests queued during a negotiation.
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
    /// Returns the number of bytes of an overlong message after which the stream is closed.
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
