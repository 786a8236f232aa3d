//! Error codes that depend on the revision. A missing resource is -32002 or -32602; -32021 and -32042 become -32602 in
//! revisions that lack them.

use super::{Dialect, Lowering, Written, bit, member};
use crate::errors::{ErrorCode, ErrorObject};
use crate::version::Era;

pub(crate) fn lower(error: &ErrorObject, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
    let code = cx.dialect().map_or(error.code, |dialect| code_in(dialect, error));
    member(out, "code", &code, cx)?;
    let lacks = cx.lacking(&ErrorObject::LACKS) | const { bit(ErrorObject::MEMBERS, "code") };
    error.lower_members(cx, lacks, out)
}

/// Returns the code that `dialect` uses for this error.
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
