//! What a server writes to standard error: always read, a bounded tail of it kept, offered line by line.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_protocol::visible::Visible;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::ChildStderr;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;

use crate::connection::feed::Feed;

/// What is kept.
const TAIL: usize = 64 << 10;
/// What an error shows of it.
const SHOWN_LINES: usize = 20;
/// What is shown of one line.
const SHOWN_LINE: usize = 400;
/// The most of one line that a listener gets.
const LINE: usize = 8 << 10;
/// Lines that a listener may be behind.
const BEHIND: usize = 256;
/// Shorter values are too common to be hidden.
const SECRET: usize = 4;
/// How long the last words of a process that ended may take. Something it started may hold the pipe for ever.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Reads standard error for as long as it lives.
#[derive(Debug)]
pub(crate) struct Stderr {
    tail: Arc<Tail>,
    lines: Lines,
    is_over: watch::Receiver<bool>,
    reader: JoinHandle<()>,
}

/// Gone once there is nothing more to say, so that whoever reads is told.
type Lines = Arc<Mutex<Option<broadcast::Sender<Arc<str>>>>>;

#[derive(Debug)]
struct Tail {
    kept: Mutex<Kept>,
    secrets: Vec<String>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    is_cut: bool,
}

impl Stderr {
    pub(super) fn drain(pipe: ChildStderr, mut secrets: Vec<String>) -> Self {
        // What is shown is shown line by line.
        let lines: Vec<String> =
            secrets.iter().flat_map(|secret| secret.lines().map(str::to_owned)).collect();
        secrets.extend(lines);
        secrets.retain(|secret| secret.len() >= SECRET);
        // A secret inside of another one must not keep the longer one from being found.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let tail = Arc::new(Tail { kept: Mutex::default(), secrets });
        let lines = Arc::new(Mutex::new(Some(broadcast::channel(BEHIND).0)));
        let (over, is_over) = watch::channel(false);
        let reader = tokio::spawn(read(pipe, Arc::clone(&tail), Arc::clone(&lines), over));
        Self { tail, lines, is_over, reader }
    }

    pub(crate) fn lines(&self) -> Feed<Arc<str>> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        Feed::new(lines.as_ref().map_or_else(|| broadcast::channel(1).1, broadcast::Sender::subscribe))
    }

    /// Text without the values that were given to the server.
    pub(crate) fn mask(&self, text: &str) -> String {
        self.tail.mask(text)
    }

    /// What it said last, masked and fit to be shown: a few lines.
    pub(crate) fn tail(&self) -> String {
        let text = self.tail.masked();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
        let shown = shown.iter().map(|line| Visible::new(line).at_most(SHOWN_LINE).to_string());
        shown.collect::<Vec<_>>().join("\n")
    }

    /// Waits until everything was read that a process that ended has left.
    pub(crate) async fn settled(&self) {
        let mut is_over = self.is_over.clone();
        let _ = tokio::time::timeout(LAST_WORDS, is_over.wait_for(|over| *over)).await;
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
        let over = kept.bytes.len().saturating_sub(TAIL);
        if over > 0 {
            kept.bytes.drain(..over);
            kept.is_cut = true;
        }
    }

    fn masked(&self) -> String {
        let mut kept = self.lock();
        let is_cut = kept.is_cut;
        let text = String::from_utf8_lossy(kept.bytes.make_contiguous());
        // A line that was cut may begin in the middle of a secret, which would not be found.
        let text = if is_cut { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
        self.mask(text)
    }

    fn mask(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }

    /// The same for the beginning of a value at the end of a text that was cut.
    fn mask_end(&self, mut text: String) -> String {
        // Half a character is no part of what is looked for.
        let end = text.trim_end_matches('\u{fffd}').len();
        let begins = |secret: &String| {
            let starts = secret.char_indices().map(|(at, _)| at).filter(|at| *at >= SECRET);
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

async fn read(mut pipe: ChildStderr, tail: Arc<Tail>, lines: Lines, over: watch::Sender<bool>) {
    let mut buffer = [0; 8 << 10];
    let mut line = Vec::new();
    // What comes next is the rest of a line whose beginning nobody listened to.
    let mut is_inside = false;
    loop {
        let mut space = ReadBuf::new(&mut buffer);
        let read = std::future::poll_fn(|cx| std::pin::Pin::new(&mut pipe).poll_read(cx, &mut space)).await;
        if read.is_err() || space.filled().is_empty() {
            break;
        }
        tail.push(space.filled());
        let listened = |lines: &broadcast::Sender<Arc<str>>| lines.receiver_count() > 0;
        let listening = lines.lock().unwrap_or_else(PoisonError::into_inner).clone().filter(listened);
        let Some(listening) = listening else {
            line.clear();
            is_inside = !space.filled().ends_with(b"\n");
            continue;
        };
        for piece in space.filled().split_inclusive(|byte| *byte == b'\n') {
            // Whoever comes in the middle of a line might see the second half of a value, which is not found.
            if is_inside {
                is_inside = !piece.ends_with(b"\n");
                continue;
            }
            line.extend_from_slice(&piece[..piece.len().min(LINE.saturating_sub(line.len()))]);
            if piece.ends_with(b"\n") {
                send(&tail, &listening, &mut line);
            }
        }
    }
    let last = lines.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(last) = last.filter(|_| !line.is_empty()) {
        send(&tail, &last, &mut line);
    }
    let _ = over.send(true);
}

fn send(tail: &Tail, lines: &broadcast::Sender<Arc<str>>, line: &mut Vec<u8>) {
    let is_cut = line.len() == LINE;
    let text = tail.mask(String::from_utf8_lossy(line).trim_end());
    let text = if is_cut { tail.mask_end(text) } else { text };
    line.clear();
    // Nobody may listen any more.
    let _ = lines.send(text.into());
}
