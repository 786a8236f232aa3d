//! Determines the era of a server from its response to a probe, on stdio and over HTTP.

use super::{HandshakeFailure, Mode, NegotiationError, NegotiationResult, ServerAnswer, Terms};
use crate::capabilities::ClientCapabilities;
use crate::dialect::Dialect;
use crate::errors::{ErrorCode, ErrorObject};
use crate::messages::{Body, DiscoverResult, InitializeResult};
use crate::version::{Era, ProtocolVersion};

/// The next step after a response.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// The negotiation succeeded.
    Settled(Box<NegotiationResult>),
    /// The negotiation failed.
    Failed(NegotiationError),
    /// Probe again with this version.
    Probe(ProtocolVersion),
    /// Probe again with these capabilities declared, if the client has them.
    Declare(Box<ClientCapabilities>, ErrorObject),
    /// Send `initialize` with this version.
    Initialize(ProtocolVersion),
}

/// The state of a negotiation.
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) terms: Terms,
    /// Version of the last probe.
    pub(super) probed: Option<ProtocolVersion>,
    /// The next request may reach another server, as behind a load balancer: a server that rejects a version it lists
    /// is probed once more.
    pub(super) many: bool,
    /// The corrective probe was sent.
    pub(super) corrected: bool,
    /// A modern server responded to `initialize`, and the probe after that was sent.
    pub(super) reprobed: bool,
    /// Additional capabilities were declared.
    pub(super) declared: bool,
    /// The error response to the probe.
    pub(super) probe_error: Option<ErrorObject>,
}

impl Judge {
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            terms,
            probed: None,
            many: false,
            corrected: false,
            reprobed: false,
            declared: false,
            probe_error: None,
        }
    }

    /// Returns the first message to send.
    pub(super) fn first(&self) -> Next {
        let first_modern = || self.terms.preferred(Era::Modern).cloned().map(Next::Probe);
        let first_legacy = || self.terms.preferred(Era::Legacy).cloned().map(Next::Initialize);
        let first = match self.terms.mode {
            Mode::Auto => first_modern().or_else(first_legacy),
            Mode::Legacy => first_legacy(),
            Mode::Modern => first_modern(),
        };
        first.unwrap_or(Next::Failed(NegotiationError::NothingToOffer))
    }

    /// Handles a result of the probe.
    pub(super) fn result(&self, result: &Body<'_>) -> Next {
        // A modern server lists its versions, even if the rest of its response is invalid.
        let Ok(Some(theirs)) = result.raise_member::<Vec<ProtocolVersion>>("supportedVersions") else {
            return self.legacy();
        };
        let Some(version) = self.terms.mutual(Era::Modern, &theirs) else {
            return self.legacy_among(theirs);
        };
        match Dialect::V2026_07_28.raise::<DiscoverResult>(result) {
            Ok(discovered) => Next::Settled(Box::new(NegotiationResult {
                version: version.clone(),
                server: ServerAnswer::Discovered(Box::new(discovered)),
                may_be_kept: true,
                is_announced: true,
            })),
            Err(_) => Next::Failed(NegotiationError::Unreadable),
        }
    }

    /// Handles an error response to the probe.
    pub(super) fn error(&mut self, error: &ErrorObject) -> Next {
        match error.code {
            ErrorCode::UnsupportedVersion => match error.unsupported_version_data() {
                Some(data) => self.unsupported(error, data.supported),
                None => self.legacy_after(error),
            },
            ErrorCode::MissingClientCapability => match error.missing_client_capability_data() {
                Some(_) if self.declared => Next::Failed(NegotiationError::Refused(error.clone())),
                Some(data) => Next::Declare(Box::new(data.required_capabilities), error.clone()),
                None => self.legacy_after(error),
            },
            ErrorCode::HeaderMismatch => Next::Failed(NegotiationError::Refused(error.clone())),
            _ => self.legacy_after(error),
        }
    }

    /// Handles a result of `initialize`.
    pub(super) fn initialized(&self, result: &Body<'_>, silence: bool) -> Next {
        let is_announced = !matches!(result.member("capabilities"), Ok(None));
        let answer = if is_announced {
            Dialect::V2025_11_25.raise::<InitializeResult>(result)
        } else {
            let members = result.text().trim_start_matches('{');
            Dialect::V2025_11_25.raise_str(&format!(r#"{{"capabilities":{{}},{members}"#))
        };
        let Ok(answer) = answer else { return self.handshake_failed(HandshakeFailure::Unreadable) };
        let version = answer.protocol_version.clone();
        if version.era() != Some(Era::Legacy) || !self.terms.versions.contains(&version) {
            let is_legacy = |version: &&ProtocolVersion| version.era() == Some(Era::Legacy);
            let ours = self.terms.versions.iter().filter(is_legacy).cloned().collect();
            return Next::Failed(NegotiationError::UnsupportedAnswer { ours, answered: version });
        }
        let server = ServerAnswer::Initialized(Box::new(answer));
        Next::Settled(Box::new(NegotiationResult { version, server, may_be_kept: !silence, is_announced }))
    }

    /// Handles an error response to `initialize`.
    pub(super) fn initialize_error(&mut self, error: &ErrorObject) -> Next {
        let modern = error
            .unsupported_version_data()
            .and_then(|data| self.terms.mutual(Era::Modern, &data.supported).cloned());
        match modern {
            Some(version) if !self.reprobed && self.terms.mode != Mode::Legacy => {
                self.reprobed = true;
                Next::Probe(version)
            }
            _ => match supported_versions(error) {
                Some(theirs) if !self.terms.allowed().iter().any(|version| theirs.contains(version)) => {
                    self.nothing_in_common(theirs)
                }
                _ => self.handshake_failed(HandshakeFailure::Refused(error.clone())),
            },
        }
    }

    pub(super) fn handshake_failed(&self, handshake: HandshakeFailure) -> Next {
        Next::Failed(NegotiationError::Handshake { probe: self.probe_error.clone(), handshake })
    }

    /// Handles a legacy server.
    pub(super) fn legacy(&self) -> Next {
        match self.terms.preferred(Era::Legacy) {
            Some(version) => self.legacy_with(version.clone()),
            None => Next::Failed(NegotiationError::NotModern),
        }
    }

    fn legacy_after(&mut self, error: &ErrorObject) -> Next {
        self.probe_error = Some(error.clone());
        self.legacy()
    }

    fn legacy_with(&self, version: ProtocolVersion) -> Next {
        if self.terms.mode == Mode::Modern || self.reprobed {
            return Next::Failed(NegotiationError::NotModern);
        }
        Next::Initialize(version)
    }

    fn unsupported(&mut self, error: &ErrorObject, theirs: Vec<ProtocolVersion>) -> Next {
        if let Some(version) = self.terms.mutual(Era::Modern, &theirs) {
            let is_same = self.probed.as_ref() == Some(version);
            if self.corrected || (is_same && !self.many) {
                return Next::Failed(NegotiationError::Refused(error.clone()));
            }
            self.corrected = true;
            return Next::Probe(version.clone());
        }
        if self.corrected {
            return Next::Failed(NegotiationError::Refused(error.clone()));
        }
        self.legacy_among(theirs)
    }

    /// Handles a server that listed its versions without a common modern one.
    fn legacy_among(&self, theirs: Vec<ProtocolVersion>) -> Next {
        match self.terms.mutual(Era::Legacy, &theirs) {
            Some(version) if self.terms.mode != Mode::Modern => self.legacy_with(version.clone()),
            _ => self.nothing_in_common(theirs),
        }
    }

    fn nothing_in_common(&self, theirs: Vec<ProtocolVersion>) -> Next {
        let ours = self.terms.allowed();
        Next::Failed(NegotiationError::NothingInCommon { ours, theirs })
    }
}

/// Returns the versions that a server lists when it rejects one. Modern servers use -32022, legacy servers any code:
/// -32602 in the example of MCP 2025-11-25, basic/lifecycle.
pub(super) fn supported_versions(error: &ErrorObject) -> Option<Vec<ProtocolVersion>> {
    let data = Body::of(error.data.as_ref()?.get()).ok()?;
    let versions: Vec<ProtocolVersion> = data.raise_member("supported").ok()??;
    (!versions.is_empty()).then_some(versions)
}
