//! The request state that a client keeps and sends back: encrypted and authenticated, bound to one request, and valid
//! for ten minutes.

use std::fmt;

use mcp_protocol::{Json, Map};

use crate::error::AskError;

/// The state of the earlier rounds of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequestState {
    /// The id of the call, the same in all its rounds.
    pub(crate) call: String,
    /// The number of rounds so far.
    pub(crate) rounds: u32,
    /// Answers, by the key of their question.
    pub(crate) answers: Map<String, Json>,
    /// Results of steps, by the key of the step.
    pub(crate) steps: Map<String, Json>,
    /// Unanswered confirmations: their keys in `inputRequests`, by fingerprint.
    pub(crate) open_confirmations: Map<String, String>,
    /// Answers to confirmations, by fingerprint.
    pub(crate) confirmations: Map<String, bool>,
}

#[cfg(not(feature = "sealing"))]
pub(crate) use disabled::{Sealer, fresh_id};
#[cfg(feature = "sealing")]
pub(crate) use sealing::{Sealer, fresh_id};

/// Does not show the key.
impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

#[cfg(feature = "sealing")]
mod sealing {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use chacha20poly1305::aead::{Aead, KeyInit, Payload};
    use chacha20poly1305::{XChaCha20Poly1305, XNonce};

    use super::{AskError, RequestState};
    use crate::random::fill;

    pub(crate) use crate::random::id as fresh_id;

    /// The maximum size of the sealed state, in bytes.
    const MAX_STATE_BYTES: usize = 64 << 10;
    const NONCE_BYTES: usize = 24;
    const TIMESTAMP_BYTES: usize = 8;
    /// The lifetime of sealed state.
    const STATE_LIFETIME: Duration = Duration::from_secs(600);

    /// Encrypts the state with XChaCha20-Poly1305.
    pub(crate) struct Sealer {
        cipher: XChaCha20Poly1305,
    }

    impl Sealer {
        /// Creates a sealer with a random key that is lost when the process exits.
        pub(crate) fn new() -> Self {
            let mut key = [0; 32];
            fill(&mut key);
            Self::with_key(key)
        }

        pub(crate) fn with_key(key: [u8; 32]) -> Self {
            Self { cipher: XChaCha20Poly1305::new(&key.into()) }
        }

        /// Seals the state for the request in `binding`. The output authenticates the binding but does not contain it.
        pub(crate) fn seal(&self, state: &RequestState, binding: &[u8]) -> Result<String, AskError> {
            let unsealed = |_| AskError::Malformed("the request state cannot be encrypted".to_owned());
            let mut plain = (now() + STATE_LIFETIME.as_secs()).to_le_bytes().to_vec();
            let RequestState { call, rounds, answers, steps, open_confirmations, confirmations } = state;
            let parts = (call, rounds, answers, steps, open_confirmations, confirmations);
            serde_json::to_writer(&mut plain, &parts).map_err(unsealed)?;
            let mut sealed = vec![0; NONCE_BYTES];
            fill(&mut sealed);
            let nonce = XNonce::try_from(&sealed[..]).map_err(|_| AskError::FeatureDisabled("sealing"))?;
            let payload = Payload { msg: &plain, aad: binding };
            let cipher = self.cipher.encrypt(&nonce, payload);
            sealed.extend(
                cipher
                    .map_err(|_| AskError::Malformed("the request state cannot be encrypted".to_owned()))?,
            );
            let text = URL_SAFE_NO_PAD.encode(sealed);
            if text.len() > MAX_STATE_BYTES {
                return Err(AskError::StateTooLarge(text.len(), MAX_STATE_BYTES));
            }
            Ok(text)
        }

        /// Returns the state if it was sealed with this key for this request and has not expired.
        ///
        /// `binding` is a function, because computing the binding is expensive: malformed text is refused first.
        pub(crate) fn open(
            &self,
            text: &str,
            binding: impl FnOnce() -> Option<Vec<u8>>,
        ) -> Option<RequestState> {
            if text.len() > MAX_STATE_BYTES {
                return None;
            }
            let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
            let (nonce, cipher) = sealed.split_at_checked(NONCE_BYTES)?;
            let nonce = XNonce::try_from(nonce).ok()?;
            let plain = self.cipher.decrypt(&nonce, Payload { msg: cipher, aad: &binding()? }).ok()?;
            let (stamp, state) = plain.split_at_checked(TIMESTAMP_BYTES)?;
            let good_until = u64::from_le_bytes(stamp.try_into().ok()?);
            if now() >= good_until {
                return None;
            }
            let (call, rounds, answers, steps, open_confirmations, confirmations) =
                serde_json::from_slice(state).ok()?;
            Some(RequestState { call, rounds, answers, steps, open_confirmations, confirmations })
        }
    }

    fn now() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn state() -> RequestState {
            RequestState {
                call: fresh_id(),
                rounds: 1,
                answers: [("name".to_owned(), serde_json::json!({"a": 1}).into())].into(),
                ..RequestState::default()
            }
        }

        #[test]
        fn state_opens_only_unchanged_and_for_its_own_request() {
            let sealer = Sealer::new();
            let sealed = sealer.seal(&state(), b"tools/call add {}").unwrap();
            let binding = |text: &str| {
                let text = text.as_bytes().to_vec();
                move || Some(text)
            };
            assert_eq!(sealer.open(&sealed, binding("tools/call add {}")).unwrap().rounds, 1);
            assert_eq!(sealer.open(&sealed, binding("tools/call sub {}")), None);
            assert_eq!(sealer.open(&format!("{sealed}-TAMPERED"), binding("tools/call add {}")), None);
            assert_eq!(Sealer::new().open(&sealed, binding("tools/call add {}")), None);
            for at in 0..sealed.len() {
                let mut bytes = sealed.clone().into_bytes();
                bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
                let changed = String::from_utf8(bytes).unwrap();
                assert_eq!(sealer.open(&changed, binding("tools/call add {}")), None, "{at}");
            }
        }

        #[test]
        fn state_over_the_size_limit_is_an_error() {
            let mut state = state();
            state.steps.insert("big".into(), serde_json::json!("x".repeat(MAX_STATE_BYTES)).into());
            let error = Sealer::new().seal(&state, b"").unwrap_err();
            assert!(matches!(error, AskError::StateTooLarge(_, MAX_STATE_BYTES)), "{error}");
        }
    }
}

#[cfg(not(feature = "sealing"))]
mod disabled {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::{AskError, RequestState};

    /// A stub for builds without the feature `sealing`.
    pub(crate) struct Sealer;

    impl Sealer {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn seal(&self, _: &RequestState, _: &[u8]) -> Result<String, AskError> {
            Err(AskError::FeatureDisabled("sealing"))
        }

        pub(crate) fn open(&self, _: &str, _: impl FnOnce() -> Option<Vec<u8>>) -> Option<RequestState> {
            None
        }
    }

    /// Returns a unique id. Clients can predict it, which would matter only with sealing.
    pub(crate) fn fresh_id() -> String {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        format!("{}-{since:x}-{}", std::process::id(), NEXT_ID.fetch_add(1, Ordering::Relaxed))
    }
}
