//! Determines the era of a server from its response to a probe, on stdio and over HTTP.

use super::{
    HandshakeFailure, Mode, NegotiationError, NegotiationOptions, NegotiationResult, ServerResponse,
};
use crate::capabilities::ClientCapabilities;
use crate::dialect::Dialect;
use crate::errors::{ErrorCode, ErrorObject};
use crate::messages::{Body, DiscoverResult, InitializeResult};
use crate::version::{Era, ProtocolVersion};

/// The next step after a response.
#[derive(Debug, PartialEq)]
pub(super) enum NegotiationStep {
    /// The negotiation succeeded.
    Succeeded(Box<NegotiationResult>),
    /// The negotiation failed.
    Failed(NegotiationError),
    /// Probe the server with this version.
    Probe(ProtocolVersion),
    /// Probe again with these capabilities declared. If the client does not have them, fail with this error.
    Declare(Box<ClientCapabilities>, ErrorObject),
    /// Send `initialize` with this version.
    Initialize(ProtocolVersion),
}

/// The state of a negotiation.
#[derive(Debug)]
pub(super) struct EraDetection {
    pub(super) options: NegotiationOptions,
    /// Version of the last probe.
    pub(super) probed: Option<ProtocolVersion>,
    /// True if the next request may reach another server, for example behind a load balancer. A server that rejects a
    /// version that it lists is then probed once more.
    pub(super) may_reach_another_server: bool,
    /// True once a probe was sent with a version that the server listed in an error.
    pub(super) corrected: bool,
    /// True once a modern server rejected `initialize` and was probed again.
    pub(super) reprobed: bool,
    /// True once additional capabilities were declared.
    pub(super) declared: bool,
    /// The error response to the probe.
    pub(super) probe_error: Option<ErrorObject>,
}

impl EraDetection {
    pub(super) fn new(options: NegotiationOptions) -> Self {
        Self {
            options,
            probed: None,
            may_reach_another_server: false,
            corrected: false,
            reprobed: false,
            declared: false,
            probe_error: None,
        }
    }

    /// Returns the first message to send.
    pub(super) fn first(&self) -> NegotiationStep {
        let first_modern = || self.options.preferred(Era::Modern).cloned().map(NegotiationStep::Probe);
        let first_legacy = || self.options.preferred(Era::Legacy).cloned().map(NegotiationStep::Initialize);
        let first = match self.options.mode {
            Mode::Auto => first_modern().or_else(first_legacy),
            Mode::Legacy => first_legacy(),
            Mode::Modern => first_modern(),
        };
        first.unwrap_or(NegotiationStep::Failed(NegotiationError::NoVersionToOffer))
    }

    /// Handles a result of the probe.
    pub(super) fn result(&self, result: &Body<'_>) -> NegotiationStep {
        // A server that lists its versions is modern, even if the rest of its response is invalid.
        let Ok(Some(theirs)) = result.raise_member::<Vec<ProtocolVersion>>("supportedVersions") else {
            return self.legacy();
        };
        let Some(version) = self.options.mutual(Era::Modern, &theirs) else {
            return self.legacy_among(theirs);
        };
        match Dialect::V2026_07_28.raise::<DiscoverResult>(result) {
            Ok(discovered) => NegotiationStep::Succeeded(Box::new(NegotiationResult {
                version: version.clone(),
                server: ServerResponse::Discover(Box::new(discovered)),
                is_cacheable: true,
                declares_capabilities: true,
            })),
            Err(_) => NegotiationStep::Failed(NegotiationError::InvalidResponse),
        }
    }

    /// Handles an error response to the probe.
    pub(super) fn error(&mut self, error: &ErrorObject) -> NegotiationStep {
        match error.code {
            ErrorCode::UnsupportedVersion => match error.unsupported_version_data() {
                Some(data) => self.unsupported(error, data.supported),
                None => self.legacy_after(error),
            },
            ErrorCode::MissingClientCapability => match error.missing_client_capability_data() {
                Some(_) if self.declared => {
                    NegotiationStep::Failed(NegotiationError::Rejected(error.clone()))
                }
                Some(data) => NegotiationStep::Declare(Box::new(data.required_capabilities), error.clone()),
                None => self.legacy_after(error),
            },
            ErrorCode::HeaderMismatch => NegotiationStep::Failed(NegotiationError::Rejected(error.clone())),
            _ => self.legacy_after(error),
        }
    }

    /// Handles a result of `initialize`.
    pub(super) fn initialized(&self, result: &Body<'_>, probe_timed_out: bool) -> NegotiationStep {
        let declares_capabilities = !matches!(result.member("capabilities"), Ok(None));
        let answer = if declares_capabilities {
            Dialect::V2025_11_25.raise::<InitializeResult>(result)
        } else {
            let members = result.text().trim_start_matches('{');
            Dialect::V2025_11_25.raise_str(&format!(r#"{{"capabilities":{{}},{members}"#))
        };
        let Ok(answer) = answer else { return self.handshake_failed(HandshakeFailure::InvalidResponse) };
        let version = answer.protocol_version.clone();
        if version.era() != Some(Era::Legacy) || !self.options.versions.contains(&version) {
            let is_legacy = |version: &&ProtocolVersion| version.era() == Some(Era::Legacy);
            let ours = self.options.versions.iter().filter(is_legacy).cloned().collect();
            return NegotiationStep::Failed(NegotiationError::UnsupportedVersion { ours, answered: version });
        }
        let server = ServerResponse::Initialize(Box::new(answer));
        NegotiationStep::Succeeded(Box::new(NegotiationResult {
            version,
            server,
            is_cacheable: !probe_timed_out,
            declares_capabilities,
        }))
    }

    /// Handles an error response to `initialize`.
    pub(super) fn initialize_error(&mut self, error: &ErrorObject) -> NegotiationStep {
        let modern = error
            .unsupported_version_data()
            .and_then(|data| self.options.mutual(Era::Modern, &data.supported).cloned());
        match modern {
            Some(version) if !self.reprobed && self.options.mode != Mode::Legacy => {
                self.reprobed = true;
                NegotiationStep::Probe(version)
            }
            _ => match supported_versions(error) {
                Some(theirs) if !self.options.allowed().iter().any(|version| theirs.contains(version)) => {
                    self.no_common_version(theirs)
                }
                _ => self.handshake_failed(HandshakeFailure::Rejected(error.clone())),
            },
        }
    }

    pub(super) fn handshake_failed(&self, handshake: HandshakeFailure) -> NegotiationStep {
        NegotiationStep::Failed(NegotiationError::Handshake { probe: self.probe_error.clone(), handshake })
    }

    /// Continues with a server that is known to be legacy.
    pub(super) fn legacy(&self) -> NegotiationStep {
        match self.options.preferred(Era::Legacy) {
            Some(version) => self.legacy_with(version.clone()),
            None => NegotiationStep::Failed(NegotiationError::NotModern),
        }
    }

    fn legacy_after(&mut self, error: &ErrorObject) -> NegotiationStep {
        self.probe_error = Some(error.clone());
        self.legacy()
    }

    fn legacy_with(&self, version: ProtocolVersion) -> NegotiationStep {
        if self.options.mode == Mode::Modern || self.reprobed {
            return NegotiationStep::Failed(NegotiationError::NotModern);
        }
        NegotiationStep::Initialize(version)
    }

    fn unsupported(&mut self, error: &ErrorObject, theirs: Vec<ProtocolVersion>) -> NegotiationStep {
        if let Some(version) = self.options.mutual(Era::Modern, &theirs) {
            let is_same = self.probed.as_ref() == Some(version);
            if self.corrected || (is_same && !self.may_reach_another_server) {
                return NegotiationStep::Failed(NegotiationError::Rejected(error.clone()));
            }
            self.corrected = true;
            return NegotiationStep::Probe(version.clone());
        }
        if self.corrected {
            return NegotiationStep::Failed(NegotiationError::Rejected(error.clone()));
        }
        self.legacy_among(theirs)
    }

    /// Continues with a server that listed its versions and has no modern version in common with the client.
    fn legacy_among(&self, theirs: Vec<ProtocolVersion>) -> NegotiationStep {
        match self.options.mutual(Era::Legacy, &theirs) {
            Some(version) if self.options.mode != Mode::Modern => self.legacy_with(version.clone()),
            _ => self.no_common_version(theirs),
        }
    }

    fn no_common_version(&self, theirs: Vec<ProtocolVersion>) -> NegotiationStep {
        let ours = self.options.allowed();
        NegotiationStep::Failed(NegotiationError::NoCommonVersion { ours, theirs })
    }
}

/// Returns the versions that a server lists in the error with which it rejects a version. The code of the error is not
/// checked: modern servers use -32022, and legacy servers any code, such as -32602 in the example of MCP 2025-11-25,
/// basic/lifecycle.
pub(super) fn supported_versions(error: &ErrorObject) -> Option<Vec<ProtocolVersion>> {
    let data = Body::of(error.data.as_ref()?.get()).ok()?;
    let versions: Vec<ProtocolVersion> = data.raise_member("supported").ok()??;
    (!versions.is_empty()).then_some(versions)
}
