//! 2024-11-05, relative to 2025-03-26: no tool annotations, no audio, no completions capability, no progress messages.

use super::Revision;
use crate::version::{Era, ProtocolVersion};

pub(super) const REVISION: Revision = Revision {
    version: ProtocolVersion::V2024_11_05,
    era: Era::Legacy,
    lacks: &[
        ("ServerCapabilities", &["completions"]),
        ("Tool", &["annotations"]),
        ("ProgressParams", &["message"]),
    ],
    also_has: &[],
    tolerates: &[],
};
