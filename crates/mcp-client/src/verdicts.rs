//! What was found out about servers, kept from one connection to the next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_protocol::Era;
use mcp_protocol::fingerprint::fingerprint;
use mcp_protocol::negotiation::{ServerAnswer, Verdict};

use crate::error::{Error, Result};
use crate::recipe::Recipe;

/// How long a server is taken for a legacy one. A stale verdict would succeed silently for ever.
const LEGACY: Duration = Duration::from_secs(24 * 60 * 60);
/// The most that a modern server may ask for.
const MODERN: Duration = Duration::from_secs(24 * 60 * 60);
/// Servers remembered; beyond them the one whose verdict ends first is forgotten.
const MOST: usize = 1000;

/// Which era each server speaks, so that a legacy one need not be asked again.
///
/// Give the same to every connection; a host that wants to remember across its own lives writes down
/// [`to_text`](Self::to_text). A verdict that proves wrong is found out anew and replaced. Servers are known by a digest of
/// their recipe, in which nothing can be read.
///
/// ```
/// use mcp_client::{McpClient, Recipe, Verdicts};
///
/// let verdicts = Verdicts::from_text("")?;
/// let connect = McpClient::builder(Recipe::command("weather")).verdicts(&verdicts);
/// assert_eq!(verdicts.to_text(), "");
/// # Ok::<(), mcp_client::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Verdicts(Arc<Mutex<BTreeMap<String, Kept>>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    era: Era,
    /// In seconds since 1970.
    until: u64,
}

impl Verdicts {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What was written down before.
    ///
    /// # Errors
    /// [`Error::Kept`] when a line of the text is none of ours.
    pub fn from_text(text: &str) -> Result<Self> {
        let verdicts = Self::default();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split(' ');
            let era = match words.next() {
                Some("legacy") => Some(Era::Legacy),
                Some("modern") => Some(Era::Modern),
                _ => None,
            };
            let until = words.next().and_then(|until| until.parse().ok());
            let digest = words.next().filter(|digest| digest.len() == 64);
            let (Some(era), Some(until), Some(digest), None) = (era, until, digest, words.next()) else {
                return Err(Error::Kept { line: number + 1 });
            };
            verdicts.insert(digest.to_owned(), Kept { era, until });
        }
        Ok(verdicts)
    }

    /// All of them, a line each, to be written down.
    #[must_use]
    pub fn to_text(&self) -> String {
        let line = |(digest, kept): (&String, &Kept)| {
            let era = if kept.era == Era::Legacy { "legacy" } else { "modern" };
            format!("{era} {} {digest}\n", kept.until)
        };
        self.lock().iter().map(line).collect()
    }

    /// Forgets what is known about a server.
    pub fn forget(&self, recipe: &Recipe) {
        self.lock().remove(&digest(recipe));
    }

    /// The era a server is known to speak.
    pub(crate) fn era(&self, recipe: &Recipe, now: SystemTime) -> Option<Era> {
        let kept = self.lock().get(&digest(recipe)).copied()?;
        (seconds(now) < kept.until).then_some(kept.era)
    }

    /// Keeps what was found out, if it may be kept.
    pub(crate) fn keep(&self, recipe: &Recipe, verdict: &Verdict, now: SystemTime) {
        let life = match &verdict.server {
            _ if !verdict.may_be_kept => return self.forget(recipe),
            ServerAnswer::Discovered(result) => {
                Duration::from_millis(result.ttl_ms.map_or(0, |ttl| ttl.0)).min(MODERN)
            }
            _ => LEGACY,
        };
        self.insert(digest(recipe), Kept { era: verdict.era(), until: seconds(now) + life.as_secs() });
    }

    fn insert(&self, digest: String, kept: Kept) {
        let mut all = self.lock();
        all.insert(digest, kept);
        while all.len() > MOST {
            let Some(first) = all.iter().min_by_key(|(_, kept)| kept.until).map(|(digest, _)| digest.clone())
            else {
                break;
            };
            all.remove(&first);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What makes a server the same one. Values of variables count: a server may change with them. Behind a URL it is the URL.
pub(crate) fn digest(recipe: &Recipe) -> String {
    if let Some(address) = &recipe.address {
        return fingerprint(["url".as_bytes().to_vec(), address.url.as_bytes().to_vec()]);
    }
    let folder = recipe.directory.as_ref().map(|folder| folder.as_os_str());
    let environment =
        recipe.environment.iter().flat_map(|(name, value)| [name.as_os_str(), value.as_os_str()]);
    let counts = [recipe.arguments.len(), recipe.environment.len()].map(|count| count.to_string());
    let parts = std::iter::once(recipe.program.as_os_str())
        .chain(recipe.arguments.iter().map(std::ffi::OsString::as_os_str))
        .chain(environment)
        .chain(folder);
    let parts = parts.map(|part| part.as_encoded_bytes().to_vec());
    fingerprint(counts.iter().map(|count| count.as_bytes().to_vec()).chain(parts))
}

#[cfg(test)]
mod tests {
    use mcp_protocol::capabilities::{Implementation, ServerCapabilities};
    use mcp_protocol::messages::InitializeResult;
    use mcp_protocol::negotiation::{StdioAction, StdioClient, Terms};

    use super::*;

    fn legacy(may_be_kept: bool) -> Verdict {
        let now = std::time::Instant::now();
        let terms = Terms::default().mode(mcp_protocol::negotiation::Mode::Legacy);
        let mut machine = StdioClient::new(terms, mcp_protocol::Limits::default(), now);
        let Some(StdioAction::Initialize { id, version }) = machine.poll_action() else { panic!() };
        let result = InitializeResult::new(version, ServerCapabilities::new(), Implementation::new("x", "1"));
        let mut line = Vec::new();
        mcp_protocol::messages::write::response(&mut line, &id, &result).unwrap();
        let parsed = mcp_protocol::messages::parse_bytes(&line, &mcp_protocol::Limits::default()).unwrap();
        let mcp_protocol::messages::Incoming::Message(message) = parsed else { panic!() };
        machine.handle_message(&message, now);
        assert_eq!(machine.poll_action(), Some(StdioAction::Initialized));
        let Some(StdioAction::Settled(mut verdict)) = machine.poll_action() else { panic!() };
        verdict.may_be_kept = may_be_kept;
        *verdict
    }

    #[test]
    fn x_28_a_verdict_is_kept_for_a_day_and_one_born_of_silence_never() {
        let (verdicts, recipe) = (Verdicts::new(), Recipe::command("x").env("KEY", "hush-hush"));
        let now = SystemTime::now();
        verdicts.keep(&recipe, &legacy(true), now);
        assert_eq!(verdicts.era(&recipe, now + LEGACY - Duration::from_secs(1)), Some(Era::Legacy));
        assert_eq!(verdicts.era(&recipe, now + LEGACY), None);
        assert_eq!(verdicts.era(&Recipe::command("x"), now), None, "another server");
        verdicts.keep(&Recipe::url("http://a/1").header("x", "y"), &legacy(true), now);
        assert_eq!(verdicts.era(&Recipe::url("http://a/1"), now), Some(Era::Legacy));
        assert_eq!(verdicts.era(&Recipe::url("http://a/2"), now), None, "another URL");
        verdicts.keep(&recipe, &legacy(false), now);
        assert_eq!(verdicts.era(&recipe, now), None);
    }

    #[test]
    fn what_is_written_down_comes_back_and_has_no_secret() {
        let (verdicts, recipe) = (Verdicts::new(), Recipe::command("x").env("KEY", "hush-hush"));
        verdicts.keep(&recipe, &legacy(true), SystemTime::now());
        let text = verdicts.to_text();
        assert!(text.starts_with("legacy ") && !text.contains("hush"));
        assert_eq!(Verdicts::from_text(&text).unwrap().to_text(), text);
        for wrong in ["legacy", "future 1 x", "legacy x y", "legacy 1 short"] {
            assert!(matches!(Verdicts::from_text(wrong), Err(Error::Kept { line: 1 })), "{wrong}");
        }
    }

    #[test]
    fn servers_that_are_remembered_are_bounded() {
        let verdicts = Verdicts::new();
        for number in 0..MOST + 10 {
            let now = UNIX_EPOCH + Duration::from_secs(number as u64);
            verdicts.keep(&Recipe::command(number.to_string()), &legacy(true), now);
        }
        assert_eq!(verdicts.to_text().lines().count(), MOST);
        assert_eq!(verdicts.era(&Recipe::command("0"), UNIX_EPOCH), None);
    }
}
