//! Results with which a modern server requests input or creates a task. A legacy server sends separate requests for
//! input.

use super::{Dialect, Lowering, Written};
use crate::input::InputRequiredResult;
use crate::tasks::CreateTaskResult;
use crate::version::Era;

impl Dialect {
    /// Returns true if results have a result type.
    pub(crate) fn has_result_types(self) -> bool {
        self.era() == Era::Modern
    }

    /// Returns true if a result that creates a task contains it in the member `task`.
    pub(crate) fn has_nested_tasks(self) -> bool {
        self == Self::V2025_11_25
    }
}

pub(crate) fn lower_create_task(result: &CreateTaskResult, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
    cx.since(Dialect::V2026_07_28, "a task of the tasks extension")?;
    result.lower_members(cx, cx.lacking(&CreateTaskResult::LACKS), out)
}

pub(crate) fn lower_input_required(
    result: &InputRequiredResult,
    cx: Lowering<'_>,
    out: &mut Vec<u8>,
) -> Written {
    cx.since(Dialect::V2026_07_28, "a result that requires input")?;
    result.lower_members(cx, cx.lacking(&InputRequiredResult::LACKS), out)
}
