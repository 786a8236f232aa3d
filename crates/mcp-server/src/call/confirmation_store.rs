//! The store of used confirmations: each confirmation is valid only once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::error::Error as StdError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

/// The retention time of a use. It is longer than the lifetime of sealed state, so no state outlives its recorded use.
const USE_RETENTION: Duration = Duration::from_secs(11 * 60);
/// The maximum number of stored uses: per principal, of all anonymous clients together, and in total. At a limit,
/// confirmations fail until the oldest uses expire.
const MAX_PER_PRINCIPAL: usize = 10_000;
const MAX_ANONYMOUS: usize = 200_000;
const MAX_USES: usize = 250_000;

/// A use of a confirmation, as stored by a [`ConfirmationStore`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfirmationUse {
    /// The unique id of the use: printable ASCII, at most 128 bytes.
    pub id: String,
    /// The user on whose behalf the call is made, if known.
    pub principal: Option<Arc<str>>,
    /// The time for which the store must at least keep this use.
    pub keep_for: Duration,
}

impl ConfirmationUse {
    pub(crate) fn new(id: String, principal: Option<Arc<str>>) -> Self {
        Self { id, principal, keep_for: USE_RETENTION }
    }
}

/// A store of used confirmations, which ensures that each confirmation is accepted only once: see
/// [`Context::confirm`] and [`Tool::needs_approval`].
///
/// The default store is the memory of the process. If several processes share a sealing key, each of them then accepts
/// the same confirmation once, and a process that restarts with the same key within ten minutes accepts it once more.
/// With a shared store, such as a database table, they accept it once in total. Set the store with
/// [`McpServer::confirmation_store`].
///
/// ```
/// use std::collections::HashSet;
/// use std::error::Error;
/// use std::sync::Mutex;
///
/// use mcp_server::{ConfirmationUse, ConfirmationStore, async_trait};
///
/// /// A real store would use `INSERT … ON CONFLICT DO NOTHING`, or `SET … NX EX`.
/// struct Table(Mutex<HashSet<String>>);
///
/// #[async_trait]
/// impl ConfirmationStore for Table {
///     async fn spend(&self, spent: &ConfirmationUse) -> Result<bool, Box<dyn Error + Send + Sync>> {
///         Ok(self.0.lock().unwrap().insert(spent.id.clone()))
///     }
///
///     async fn is_spent(&self, id: &str) -> Result<bool, Box<dyn Error + Send + Sync>> {
///         Ok(self.0.lock().unwrap().contains(id))
///     }
/// }
///
/// let server = mcp_server::McpServer::named("replica", "1").confirmation_store(Table(Mutex::default()));
/// ```
///
/// [`Context::confirm`]: crate::Context::confirm
/// [`Tool::needs_approval`]: crate::Tool::needs_approval
/// [`McpServer::confirmation_store`]: crate::McpServer::confirmation_store
#[async_trait]
pub trait ConfirmationStore: Send + Sync + 'static {
    /// Records a use atomically. Returns true if this call recorded it, and false if it was already recorded.
    ///
    /// # Errors
    /// Fails if the use cannot be recorded. The tool call then fails, and the error is logged.
    async fn spend(&self, spent: &ConfirmationUse) -> Result<bool, Box<dyn StdError + Send + Sync>>;

    /// Returns true if the use with this id was recorded.
    ///
    /// # Errors
    /// Fails if the store cannot be read. The tool call then fails, and the error is logged.
    async fn is_spent(&self, id: &str) -> Result<bool, Box<dyn StdError + Send + Sync>>;
}

/// The default store: the memory of this process.
#[derive(Default)]
pub(crate) struct InMemoryStore(Mutex<State>);

#[derive(Default)]
struct State {
    ids: HashSet<Arc<str>>,
    oldest_first: VecDeque<StoredUse>,
    /// The number of stored uses per principal.
    principals: HashMap<Option<Arc<str>>, usize>,
}

/// A recorded use, with the time at which it was recorded.
struct StoredUse {
    since: Instant,
    id: Arc<str>,
    principal: Option<Arc<str>>,
}

impl State {
    fn spend(&mut self, spent: &ConfirmationUse, now: Instant) -> Result<bool, &'static str> {
        self.remove_expired(now);
        if self.ids.contains(&*spent.id) {
            return Ok(false);
        }
        let of_principal = self.principals.get(&spent.principal).copied().unwrap_or(0);
        let limit = if spent.principal.is_some() { MAX_PER_PRINCIPAL } else { MAX_ANONYMOUS };
        if of_principal >= limit || self.ids.len() >= MAX_USES {
            return Err("too many confirmations used within 11 minutes; retry later");
        }
        let id: Arc<str> = spent.id.as_str().into();
        self.ids.insert(Arc::clone(&id));
        self.principals.insert(spent.principal.clone(), of_principal + 1);
        self.oldest_first.push_back(StoredUse { since: now, id, principal: spent.principal.clone() });
        Ok(true)
    }

    /// Removes the uses whose retention time has passed.
    fn remove_expired(&mut self, now: Instant) {
        let is_old = |stored: &StoredUse| now.duration_since(stored.since) > USE_RETENTION;
        while self.oldest_first.front().is_some_and(is_old) {
            let Some(stored) = self.oldest_first.pop_front() else { return };
            self.ids.remove(&stored.id);
            if let Some(count) = self.principals.get_mut(&stored.principal) {
                *count -= 1;
                if *count == 0 {
                    self.principals.remove(&stored.principal);
                }
            }
        }
    }
}

impl InMemoryStore {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ConfirmationStore for InMemoryStore {
    async fn spend(&self, spent: &ConfirmationUse) -> Result<bool, Box<dyn StdError + Send + Sync>> {
        Ok(self.lock().spend(spent, Instant::now())?)
    }

    async fn is_spent(&self, id: &str) -> Result<bool, Box<dyn StdError + Send + Sync>> {
        Ok(self.lock().ids.contains(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(id: usize, principal: &str) -> ConfirmationUse {
        ConfirmationUse::new(format!("call/{id}"), Some(principal.into()))
    }

    #[test]
    fn each_use_is_accepted_once_until_it_expires() {
        let (mut state, now) = (State::default(), Instant::now());
        assert_eq!(state.spend(&spent(1, "a"), now), Ok(true));
        assert_eq!(state.spend(&spent(1, "a"), now + USE_RETENTION), Ok(false));
        assert_eq!(state.spend(&spent(1, "a"), now + USE_RETENTION + Duration::from_secs(1)), Ok(true));
        assert_eq!((state.ids.len(), state.oldest_first.len(), state.principals.len()), (1, 1, 1));
    }

    #[test]
    fn one_principal_cannot_exhaust_the_store_for_others() {
        let (mut state, now) = (State::default(), Instant::now());
        for id in 0..MAX_PER_PRINCIPAL {
            assert_eq!(state.spend(&spent(id, "greedy"), now), Ok(true));
        }
        assert!(state.spend(&spent(MAX_PER_PRINCIPAL, "greedy"), now).is_err());
        assert_eq!(state.spend(&spent(MAX_PER_PRINCIPAL, "other"), now), Ok(true));
        let later = now + USE_RETENTION + Duration::from_secs(1);
        assert_eq!(state.spend(&spent(MAX_PER_PRINCIPAL, "greedy"), later), Ok(true));
        assert_eq!(state.principals.len(), 1);
    }

    #[test]
    fn anonymous_clients_leave_room_for_principals() {
        let (mut state, now) = (State::default(), Instant::now());
        for id in 0..MAX_ANONYMOUS {
            assert_eq!(state.spend(&ConfirmationUse::new(id.to_string(), None), now), Ok(true));
        }
        assert!(state.spend(&ConfirmationUse::new("one more".to_owned(), None), now).is_err());
        assert_eq!(state.spend(&spent(1, "somebody"), now), Ok(true));
    }
}
