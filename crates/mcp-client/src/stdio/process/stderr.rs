//! The stderr of a server. It is always read and offered line by line; its end is kept for errors, up to a limit.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mcp_protocol::safe_text::SafeText;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::ChildStderr;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::connection::feed::{Feed, FeedSender};

/// The maximum number of bytes of output that are kept.
const MAX_TAIL_BYTES: usize = 64 << 10;
/// The maximum number of lines that an error shows.
const MAX_SHOWN_LINES: usize = 20;
/// The maximum number of characters of a line that an error shows.
const MAX_SHOWN_LINE_CHARS: usize = 400;
/// The maximum number of bytes of one line that a subscriber receives.
const MAX_LINE_BYTES: usize = 8 << 10;
/// The minimum length of a value that is masked. Shorter values are too common in ordinary text.
const MIN_SECRET_BYTES: usize = 4;
/// The maximum wait for the remaining output of an exited process, because a descendant may hold the pipe open forever.
const REMAINING_OUTPUT_TIMEOUT: Duration = Duration::from_millis(200);

/// Reads the stderr of a process until this value is dropped.
#[derive(Debug)]
pub(crate) struct Stderr {
    tail: Arc<Tail>,
    lines: LineSender,
    is_over: watch::Receiver<bool>,
    reader: JoinHandle<()>,
}

/// The sender of lines. It ends with the output, so that subscribers see the end.
type LineSender = Arc<Mutex<FeedSender<Arc<str>>>>;

struct Tail {
    kept: Mutex<Kept>,
    secrets: Vec<String>,
    /// True if lines are also written to the stderr of this process.
    is_inherited: bool,
}

/// Shows neither the secrets nor the output, which may contain them.
impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail").field("secrets", &self.secrets.len()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Kept {
    bytes: VecDeque<u8>,
    is_cut: bool,
}

impl Stderr {
    pub(super) fn drain(pipe: ChildStderr, mut secrets: Vec<String>, is_inherited: bool) -> Self {
        // Output is masked line by line, so each line of a secret is masked as a secret of its own.
        let lines: Vec<String> =
            secrets.iter().flat_map(|secret| secret.lines().map(str::to_owned)).collect();
        secrets.extend(lines);
        secrets.retain(|secret| secret.len() >= MIN_SECRET_BYTES);
        // Longer secrets are masked first: masking a secret inside of a longer one would hide the longer one from the
        // search.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let tail = Arc::new(Tail { kept: Mutex::default(), secrets, is_inherited });
        let lines = Arc::new(Mutex::new(FeedSender::Unread));
        let (over, is_over) = watch::channel(false);
        let reader = tokio::spawn(read(pipe, Arc::clone(&tail), Arc::clone(&lines), over));
        Self { tail, lines, is_over, reader }
    }

    pub(crate) fn lines(&self) -> Feed<Arc<str>> {
        lock(&self.lines).feed()
    }

    /// Masks the configured environment values in a text.
    pub(crate) fn mask(&self, text: &str) -> String {
        self.tail.mask(text)
    }

    /// Returns the last lines of the output, masked and escaped.
    pub(crate) fn tail(&self) -> String {
        let text = self.tail.masked();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let shown = &lines[lines.len().saturating_sub(MAX_SHOWN_LINES)..];
        let shown = shown.iter().map(|line| SafeText::new(line).at_most(MAX_SHOWN_LINE_CHARS).to_string());
        shown.collect::<Vec<_>>().join("\n")
    }

    /// Waits, for a limited time, until the remaining output of an exited process was read.
    pub(crate) async fn read_to_end(&self) {
        let mut is_over = self.is_over.clone();
        let _ = tokio::time::timeout(REMAINING_OUTPUT_TIMEOUT, is_over.wait_for(|over| *over)).await;
    }
}

impl Drop for Stderr {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Tail {
    fn push(&self, bytes: &[u8]) {
        let mut kept = self.lock();
        kept.bytes.extend(bytes);
        let over = kept.bytes.len().saturating_sub(MAX_TAIL_BYTES);
        if over > 0 {
            kept.bytes.drain(..over);
            kept.is_cut = true;
        }
    }

    fn masked(&self) -> String {
        let mut kept = self.lock();
        let is_cut = kept.is_cut;
        let text = String::from_utf8_lossy(kept.bytes.make_contiguous());
        // The first line is dropped if it was cut: it may begin in the middle of a secret, which would not be masked.
        let text = if is_cut { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
        self.mask(text)
    }

    fn mask(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }

    /// Masks the first part of a secret at the end of a text that was cut off.
    fn mask_end(&self, mut text: String) -> String {
        // A character that was cut in the middle became U+FFFD, which is not part of the secret.
        let end = text.trim_end_matches('\u{fffd}').len();
        let begins = |secret: &String| {
            let starts = secret.char_indices().map(|(at, _)| at).filter(|at| *at >= MIN_SECRET_BYTES);
            starts.rev().find(|at| text[..end].ends_with(&secret[..*at]))
        };
        if let Some(cut) = self.secrets.iter().filter_map(begins).max() {
            text.truncate(end - cut);
            text.push_str("***");
        }
        text
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(mut pipe: ChildStderr, tail: Arc<Tail>, lines: LineSender, over: watch::Sender<bool>) {
    let mut splitter = LineSplitter::default();
    let mut read_some = |cx: &mut Context<'_>| {
        // Not part of the future, which exists for every process.
        let mut buffer = [0; 8 << 10];
        let mut space = ReadBuf::new(&mut buffer);
        let read = ready!(Pin::new(&mut pipe).poll_read(cx, &mut space));
        if read.is_err() || space.filled().is_empty() {
            return Poll::Ready(false);
        }
        tail.push(space.filled());
        splitter.push(space.filled(), &tail, &lines);
        Poll::Ready(true)
    };
    while poll_fn(&mut read_some).await {}
    if !splitter.line.is_empty() {
        send(&tail, &lines, &mut splitter.line);
    }
    lock(&lines).end();
    let _ = over.send(true);
}

/// Splits output into lines for the subscribers.
#[derive(Default)]
struct LineSplitter {
    /// The beginning of a line.
    line: Vec<u8>,
    /// True while reading the rest of a line whose beginning was read when there was no subscriber.
    is_inside: bool,
}

impl LineSplitter {
    fn push(&mut self, bytes: &[u8], tail: &Tail, lines: &LineSender) {
        if !tail.is_inherited && !lock(lines).has_readers() {
            self.line.clear();
            self.is_inside = !bytes.ends_with(b"\n");
            return;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            // The rest of a line is skipped: it may contain a part of a secret, which would not be masked.
            if self.is_inside {
                self.is_inside = !piece.ends_with(b"\n");
                continue;
            }
            let room = MAX_LINE_BYTES.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                send(tail, lines, &mut self.line);
            }
        }
    }
}

fn lock(lines: &LineSender) -> MutexGuard<'_, FeedSender<Arc<str>>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send(tail: &Tail, lines: &LineSender, line: &mut Vec<u8>) {
    let is_cut = line.len() == MAX_LINE_BYTES;
    let text = tail.mask(String::from_utf8_lossy(line).trim_end());
    let text = if is_cut { tail.mask_end(text) } else { text };
    line.clear();
    if tail.is_inherited {
        // If this process has no stderr, the line is lost.
        let _ = writeln!(io::stderr(), "{text}");
    }
    lock(lines).send(text.into());
}
