//! Tokens that were verified already, by the digest of the whole token.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use ring::digest::{Context, SHA256};

use crate::call::identity::Principal;

/// The number of tokens in each of the two maps.
const MAX_TOKENS: usize = 5_000;

type Digest = [u8; 32];

/// Verified tokens. When one map is full, the other one, which is older, is dropped and takes its place: what is used
/// stays, and neither a clock nor an order of use is kept.
#[derive(Default)]
pub(super) struct VerifiedTokens {
    recent: HashMap<Digest, Principal>,
    older: HashMap<Digest, Principal>,
    /// The generation of the keys with which the tokens were verified.
    generation: u64,
}

impl VerifiedTokens {
    /// Returns the principal of a token that was verified with these keys and has not expired.
    pub(super) fn get(&mut self, digest: &Digest, generation: u64, now: Duration) -> Option<Principal> {
        if self.generation != generation {
            return None;
        }
        let principal = match self.recent.get(digest) {
            Some(principal) => principal.clone(),
            None => {
                let principal = self.older.remove(digest)?;
                self.insert(*digest, generation, principal.clone());
                principal
            }
        };
        let expires_at = principal.expires_at()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if now < expires_at {
            return Some(principal);
        }
        self.recent.remove(digest);
        None
    }

    pub(super) fn insert(&mut self, digest: Digest, generation: u64, principal: Principal) {
        if self.generation != generation {
            *self = Self { generation, ..Self::default() };
        }
        if self.recent.len() >= MAX_TOKENS {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(digest, principal);
    }
}

/// Returns the digest of a token and the resource for which it was verified.
pub(super) fn digest(token: &str, resource: &str) -> Digest {
    let mut context = Context::new(&SHA256);
    // No token contains a zero byte.
    for part in [token, "\0", resource] {
        context.update(part.as_bytes());
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn until(seconds: u64) -> Principal {
        Principal::new("ada").with_expiry(SystemTime::UNIX_EPOCH + at(seconds))
    }

    #[test]
    fn token_is_remembered_until_it_expires_or_the_keys_change() {
        let mut tokens = VerifiedTokens::default();
        tokens.insert([1; 32], 0, until(100));
        assert!(tokens.get(&[1; 32], 0, at(99)).is_some());
        assert!(tokens.get(&[2; 32], 0, at(99)).is_none());
        assert!(tokens.get(&[1; 32], 1, at(99)).is_none());
        assert!(tokens.get(&[1; 32], 0, at(100)).is_none());
        assert_eq!(tokens.recent.len(), 0);
        tokens.insert([1; 32], 0, until(100));
        tokens.insert([2; 32], 1, until(100));
        assert!(tokens.get(&[1; 32], 1, at(1)).is_none() && tokens.get(&[2; 32], 1, at(1)).is_some());
        // Without an expiry, nothing is remembered.
        tokens.insert([3; 32], 1, Principal::new("ada"));
        assert!(tokens.get(&[3; 32], 1, at(1)).is_none());
    }

    #[test]
    fn number_of_tokens_is_bounded_and_used_ones_stay() {
        let mut tokens = VerifiedTokens::default();
        let digest = |at: usize| digest(&at.to_string(), "r");
        for at in 0..50_000 {
            tokens.insert(digest(at), 0, until(100));
            assert!(tokens.get(&digest(0), 0, Duration::ZERO).is_some(), "{at}");
        }
        assert!(tokens.recent.len() <= MAX_TOKENS && tokens.older.len() <= MAX_TOKENS);
        assert!(tokens.get(&digest(1), 0, Duration::ZERO).is_none());
        assert!(tokens.get(&digest(49_999), 0, Duration::ZERO).is_some());
    }

    #[test]
    fn digest_depends_on_the_whole_token_and_the_resource() {
        let all = [digest("ab", "c"), digest("a", "bc"), digest("ab", "d"), digest("abc", "")];
        for (at, one) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| other != one));
        }
    }
}
