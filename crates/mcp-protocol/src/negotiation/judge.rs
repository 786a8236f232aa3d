//! Decides the era of a server from its response to a probe, on stdio and over HTTP.

use super::{HandshakeFailure, Mode, NegotiationError, NegotiationResult, ServerAnswer, Terms};
use crate::capabilities::ClientCapabilities;
use crate::dialect::Dialect;
use crate::errors::{ErrorCode, ErrorObject};
use crate::messages::{Body, DiscoverResult, InitializeResult};
use crate::version::{Era, ProtocolVersion};

/// What to do after an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// It is settled.
    Settled(Box<NegotiationResult>),
    /// It cannot be.
    Failed(NegotiationError),
    /// Ask again in this version.
    Probe(ProtocolVersion),
    /// Ask again with these capabilities declared, if we have them.
    Declare(Box<ClientCapabilities>, ErrorObject),
    /// Shake hands, offering this version.
    Initialize(ProtocolVersion),
}

/// What is known while a negotiation goes on.
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) terms: Terms,
    /// The version of the probe in flight or last sent.
    pub(super) probed: Option<ProtocolVersion>,
    /// Another server may answer the next time, as behind a balancer: one that refuses the very version it names is asked
    /// once more.
    pub(super) many: bool,
    /// The one corrective probe was used.
    pub(super) corrected: bool,
    /// A modern server answered `initialize`; the one probe after that was used.
    pub(super) reprobed: bool,
    /// Capabilities were declared on demand.
    pub(super) declared: bool,
    /// The error that answered the probe.
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

    /// The first message to send.
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

    /// A result answered the probe.
    pub(super) fn result(&self, result: &Body<'_>) -> Next {
        // A modern server says which versions it speaks, whatever else may be wrong with its answer.
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

    /// An error answered the probe.
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

    /// A result answered `initialize`.
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

    /// An error answered `initialize`.
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

    /// The server is a legacy one.
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

    /// A server that named its versions, none of them modern and ours too.
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

/// The versions that a server names when it refuses one. Modern servers do so with -32022, legacy ones with any code: -32602
/// in the example of MCP 2025-11-25, basic/lifecycle.
pub(super) fn supported_versions(error: &ErrorObject) -> Option<Vec<ProtocolVersion>> {
    let data = Body::of(error.data.as_ref()?.get()).ok()?;
    let versions: Vec<ProtocolVersion> = data.raise_member("supported").ok()??;
    (!versions.is_empty()).then_some(versions)
}
