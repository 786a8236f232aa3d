//! Every bound of this crate, in one place.
//!
//! | field | default | why |
//! |---|---|---|
//! | `message` | 16 MiB | one message: a line, an SSE event, a body. Larger results belong into resources. |
//! | `id` | 1 KiB | an id is kept for as long as its request runs. |
//! | `batch` | 100 | messages in one 2025-03-26 batch. |
//! | `in_flight` | 1000 | requests open in one direction of one connection. |
//! | `sample` | 256 B | what is kept of a line that is not a message, to show it in an error. |
//! | `noise_lines`, `noise_bytes` | 1000, 1 MiB | output that is not JSON which a negotiation puts up with. |
//! | `header` | 8 KiB | the id and the type of an SSE event. HTTP headers are bounded by whoever reads them. |
//! | `held` | 16 | requests of the server kept unanswered until its era is known. |
//!
//!
//! These are fixed, because nobody has a reason to set them:
//!
//! | what | bound | why |
//! |---|---|---|
//! | [`MAX_DEPTH`] | 127 | levels in a message; serde_json stops there as well. |
//! | looked at for an id | 1 KiB | of an over-long message: ids stand near the beginning. |
//! | an over-long line or event | 4 × `message` | is skipped this far to its end; a stream without one is closed. |
//! | kept by an idle buffer | 64 KiB | a large message costs its memory until the next small one, not for ever. |
//! | garbage answered | 10 lines | a server that answers noise with noise helps nobody; then it closes. |
//! | logins in one negotiation | 2 | a server that is never satisfied is not asked for ever. |
//! | first event of an old stream | 10 s | a stream that says nothing is no HTTP+SSE server. |
//! | progress | 8 at once, then 10 a second | a tool in a tight loop must not flood its client; the last always goes. |
//! | remembered envelope | 4 KiB | the last one that was read, so that the same need not be read again. |
//! | arguments as headers | 100 | of one tool; servers take about as many headers in all. |
//! | [`MAX_URI`] | 16 KiB | a URI that one side keeps for the other, such as that of a subscription. |
//! | paths of such arguments | 64 KiB | of one tool: a long name above many of them must not be kept for each. |
//! | shown of a peer's text | 80, 1000 | characters of a name and of a message in errors and logs. |
//! | names | 256, 64 | characters of a server's name; of a callable name, the least that model APIs allow. |

use std::time::Duration;

/// How much of an over-long message is looked at for its id.
pub(crate) const SALVAGED: usize = 1 << 10;

/// What an idle buffer keeps.
pub(crate) const KEPT_BUFFER: usize = 64 << 10;

/// How many lines that cannot be read are answered before a server closes.
pub(crate) const UNREADABLE_ANSWERED: u32 = 10;

/// How often a negotiation asks for a login.
pub(crate) const LOGINS: u8 = 2;

/// How long the first event of a stream may take that could be the old HTTP+SSE pair.
pub(crate) const FIRST_EVENT: Duration = Duration::from_secs(10);

/// How much progress is told at once.
pub(crate) const PROGRESS_BURST: u32 = 8;

/// How often progress is told after that.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// How long an envelope may be to be remembered.
pub(crate) const REMEMBERED_ENVELOPE: usize = 4 << 10;

/// How many arguments of a tool may travel as headers.
pub(crate) const PARAM_HEADERS: usize = 100;

/// The most bytes that the paths of these arguments take in memory.
pub(crate) const PARAM_PATHS: usize = 64 << 10;

/// The most characters of a peer's name that are shown.
pub(crate) const SHOWN_NAME: usize = 80;

/// The most characters of a peer's message that are shown.
pub(crate) const SHOWN_MESSAGE: usize = 1000;

/// The most characters of a server's name.
pub(crate) const SERVER_NAME: usize = 256;

/// The most characters of a callable name.
pub(crate) const CALLABLE_NAME: usize = 64;

/// The most bytes of a URI that one side keeps for the other.
pub const MAX_URI: usize = 16 << 10;

/// How deeply a message may nest, its own braces counted. The 128th level is refused.
pub const MAX_DEPTH: usize = 127;

/// The bounds of one connection. See the [table](self) for defaults and reasons.
///
/// ```
/// let limits = mcp_protocol::Limits::default().message(1 << 20).in_flight(64);
/// assert_eq!(limits.in_flight, 64);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes in one message.
    pub message: usize,
    /// Bytes in a string id.
    pub id: usize,
    /// Messages in one batch.
    pub batch: usize,
    /// Requests open in one direction.
    pub in_flight: usize,
    /// Bytes kept of input that is not a message.
    pub sample: usize,
    /// Lines of noise before a negotiation gives up.
    pub noise_lines: usize,
    /// Bytes of noise before a negotiation gives up.
    pub noise_bytes: usize,
    /// Bytes in the id or type of an SSE event.
    pub header: usize,
    /// Requests held back during a negotiation.
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
    /// How far an over-long message is skipped while looking for its end.
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
