//! Elicitation before 2025-11-25: one notation for selections, no multiple selection, and no URLs.

use serde::ser::Error;

use super::{Dialect, Lowering, Written, bit, member};
use crate::capabilities::ClientCapabilities;
use crate::elicitation::{
    ElicitResult, ElicitUrlParams, FieldValue, TitledMultiSelectSchema, TitledSingleSelectSchema,
    UntitledMultiSelectSchema,
};

/// Fails for a multiple selection before 2025-11-25, which introduced it.
pub(crate) fn lower_result(result: &ElicitResult, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
    if result.content.iter().flatten().any(|(_, value)| matches!(value, FieldValue::Strings(_))) {
        cx.since(Dialect::V2025_11_25, "multi-select")?;
    }
    result.lower_members(cx, cx.lacking(&ElicitResult::LACKS), out)
}

pub(crate) fn lower_url(params: &ElicitUrlParams, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
    cx.since(Dialect::V2025_11_25, "URL elicitation")?;
    if cx.dialect() == Some(Dialect::V2025_11_25) && params.elicitation_id.is_none() {
        return Err(serde_json::Error::custom("2025-11-25 requires an `elicitationId` for URL elicitation"));
    }
    params.lower_members(cx, cx.lacking(&ElicitUrlParams::LACKS), out)
}

/// Before 2025-11-25, the elicitation capability means forms, so it is omitted for a client that supports only URLs.
pub(crate) fn lower_client_capabilities(
    capabilities: &ClientCapabilities,
    cx: Lowering<'_>,
    out: &mut Vec<u8>,
) -> Written {
    let mut skip = cx.lacking(&ClientCapabilities::LACKS);
    if cx.is_before(Dialect::V2025_11_25)
        && capabilities.elicitation.as_ref().is_some_and(|elicitation| !elicitation.has_form())
    {
        skip |= const { bit(ClientCapabilities::MEMBERS, "elicitation") };
    }
    capabilities.lower_members(cx, skip, out)
}

/// Before 2025-11-25, writes the titles as `enumNames` next to the values.
pub(crate) fn lower_titled(
    schema: &TitledSingleSelectSchema,
    cx: Lowering<'_>,
    out: &mut Vec<u8>,
) -> Written {
    const MEMBERS: &[&str] = TitledSingleSelectSchema::MEMBERS;
    if cx.is_before(Dialect::V2025_11_25) {
        let left_out = const { bit(MEMBERS, "oneOf") | bit(MEMBERS, "default") };
        schema.lower_members(cx, left_out, out)?;
        let values: Vec<&str> = schema.options.iter().map(|option| option.value.as_str()).collect();
        let titles: Vec<&str> = schema.options.iter().map(|option| option.title.as_str()).collect();
        member(out, "enum", &values, cx)?;
        member(out, "enumNames", &titles, cx)
    } else {
        schema.lower_members(cx, cx.lacking(&TitledSingleSelectSchema::LACKS), out)
    }
}

macro_rules! multi_select {
    ($name:ident, $schema:ty) => {
        pub(crate) fn $name(schema: &$schema, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
            cx.since(Dialect::V2025_11_25, "multi-select")?;
            schema.lower_members(cx, cx.lacking(&<$schema>::LACKS), out)
        }
    };
}

multi_select!(lower_untitled_multi, UntitledMultiSelectSchema);
multi_select!(lower_titled_multi, TitledMultiSelectSchema);
