//! Forms before 2025-11-25, which had one way to spell choices and no URLs.

use serde::ser::{Error, SerializeMap, Serializer};

use super::{Dialect, Lowering, bit};
use crate::capabilities::ClientCapabilities;
use crate::elicitation::{
    ElicitResult, ElicitUrlParams, FieldValue, TitledMultiSelectSchema, TitledSingleSelectSchema,
    UntitledMultiSelectSchema,
};

/// Several choices in one field came with 2025-11-25.
pub(crate) fn lower_result<S: Serializer>(
    result: &ElicitResult,
    cx: Lowering<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if result.content.iter().flatten().any(|(_, value)| matches!(value, FieldValue::Strings(_))) {
        cx.since::<S::Error>(Dialect::V2025_11_25, "choosing several")?;
    }
    let mut out = serializer.serialize_map(None)?;
    result.lower_members(cx, cx.lacking(&ElicitResult::LACKS), &mut out)?;
    out.end()
}

pub(crate) fn lower_url<S: Serializer>(
    params: &ElicitUrlParams,
    cx: Lowering<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    cx.since::<S::Error>(Dialect::V2025_11_25, "asking by URL")?;
    if cx.dialect() == Some(Dialect::V2025_11_25) && params.elicitation_id.is_none() {
        return Err(S::Error::custom("2025-11-25 wants an `elicitationId` with every URL"));
    }
    let mut out = serializer.serialize_map(None)?;
    params.lower_members(cx, cx.lacking(&ElicitUrlParams::LACKS), &mut out)?;
    out.end()
}

/// A client that can only open pages cannot be asked before 2025-11-25, where asking means forms.
pub(crate) fn lower_client_capabilities<S: Serializer>(
    capabilities: &ClientCapabilities,
    cx: Lowering<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut skip = cx.lacking(&ClientCapabilities::LACKS);
    if cx.is_before(Dialect::V2025_11_25)
        && capabilities.elicitation.as_ref().is_some_and(|elicitation| !elicitation.has_form())
    {
        skip |= const { bit(ClientCapabilities::MEMBERS, "elicitation") };
    }
    let mut out = serializer.serialize_map(None)?;
    capabilities.lower_members(cx, skip, &mut out)?;
    out.end()
}

/// Titles beside the values, as 2025-06-18 has them.
pub(crate) fn lower_titled<S: Serializer>(
    schema: &TitledSingleSelectSchema,
    cx: Lowering<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    const MEMBERS: &[&str] = TitledSingleSelectSchema::MEMBERS;
    let mut out = serializer.serialize_map(None)?;
    if cx.is_before(Dialect::V2025_11_25) {
        let left_out = const { bit(MEMBERS, "oneOf") | bit(MEMBERS, "default") };
        schema.lower_members(cx, left_out, &mut out)?;
        let values: Vec<&str> = schema.options.iter().map(|option| option.value.as_str()).collect();
        let titles: Vec<&str> = schema.options.iter().map(|option| option.title.as_str()).collect();
        out.serialize_entry("enum", &values)?;
        out.serialize_entry("enumNames", &titles)?;
    } else {
        schema.lower_members(cx, cx.lacking(&TitledSingleSelectSchema::LACKS), &mut out)?;
    }
    out.end()
}

macro_rules! multi_select {
    ($name:ident, $schema:ty) => {
        pub(crate) fn $name<S: Serializer>(
            schema: &$schema,
            cx: Lowering<'_>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            cx.since::<S::Error>(Dialect::V2025_11_25, "choosing several")?;
            let mut out = serializer.serialize_map(None)?;
            schema.lower_members(cx, cx.lacking(&<$schema>::LACKS), &mut out)?;
            out.end()
        }
    };
}

multi_select!(lower_untitled_multi, UntitledMultiSelectSchema);
multi_select!(lower_titled_multi, TitledMultiSelectSchema);
