//! The same error under another code: -32602 and -32002, -32021, -32042.

use serde::ser::{SerializeMap, Serializer};

use super::{Dialect, Lowering, bit};
use crate::errors::{ErrorCode, ErrorObject};
use crate::version::Era;

pub(crate) fn lower<S: Serializer>(
    error: &ErrorObject,
    cx: Lowering<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let code = cx.dialect().map_or(error.code, |dialect| code_in(dialect, error));
    let mut out = serializer.serialize_map(None)?;
    out.serialize_entry("code", &code)?;
    let lacks = cx.lacking(&ErrorObject::LACKS) | const { bit(ErrorObject::MEMBERS, "code") };
    error.lower_members(cx, lacks, &mut out)?;
    out.end()
}

/// The code that `dialect` uses for this error.
fn code_in(dialect: Dialect, error: &ErrorObject) -> ErrorCode {
    match (error.code, dialect.era()) {
        (ErrorCode::ResourceNotFound, Era::Modern) => ErrorCode::InvalidParams,
        (ErrorCode::InvalidParams, Era::Legacy) if error.is_resource_not_found() => {
            ErrorCode::ResourceNotFound
        }
        (ErrorCode::MissingClientCapability, Era::Legacy) => ErrorCode::InvalidParams,
        (ErrorCode::UrlElicitationRequired, _) if dialect != Dialect::V2025_11_25 => ErrorCode::InvalidParams,
        (code, _) => code,
    }
}
