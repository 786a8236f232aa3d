//! Completion of the arguments of prompts and resource templates.
//!
//! Spec: MCP 2026-07-28, server/utilities/completion.

use crate::macros::object;
use crate::map::Map;
use crate::messages::ResultType;
use crate::union::union;

object! {
    /// Params of `completion/complete`.
    #[doc(alias = "completion")]
    #[doc(alias = "autocomplete")]
    pub struct CompleteParams {
        required {
            /// Prompt or resource template that the argument belongs to.
            reference: CompletionReference = "ref",
            /// Argument to complete, with its partial value.
            argument: CompletionArgument = "argument",
        }
        optional {
            /// Arguments that are already set; since 2025-06-18.
            context: CompletionContext = "context",
        }
        meta = meta;
    }
}

union! {
    /// The prompt or resource template whose argument is completed.
    pub enum CompletionReference by "type" {
        /// A prompt.
        "ref/prompt" => Prompt(PromptReference),
        /// A resource template.
        "ref/resource" => Resource(ResourceReference),
    }
}

object! {
    /// A reference to a prompt by name.
    pub struct PromptReference {
        tag "type" = "ref/prompt";
        required {
            /// Name.
            name: String = "name",
        }
        optional {
            /// Display name; since 2025-06-18.
            title: String = "title",
        }
    }
}

object! {
    /// A reference to a resource template by URI.
    pub struct ResourceReference {
        tag "type" = "ref/resource";
        required {
            /// URI or URI template.
            uri: String = "uri",
        }
    }
}

object! {
    /// An argument with its partial value.
    pub struct CompletionArgument {
        required {
            /// Name.
            name: String = "name",
            /// Partial value.
            value: String = "value",
        }
    }
}

object! {
    /// Arguments that are already set.
    pub struct CompletionContext {
        optional {
            /// Values by argument name.
            arguments: Map<String, String> = "arguments",
        }
    }
}

object! {
    /// Result of `completion/complete`.
    pub struct CompleteResult {
        expected {
            /// Result type; always `complete`.
            result_type: ResultType = "resultType" or ResultType::Complete,
        }
        required {
            /// Completion values.
            completion: Completion = "completion",
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
    }
}

object! {
    /// Completion values of an argument, best match first.
    pub struct Completion {
        required {
            /// Values; at most 100.
            values: Vec<String> = "values",
        }
        optional {
            /// Total number of matches.
            total: u64 = "total",
            /// True if there are more matches.
            has_more: bool = "hasMore",
        }
    }
}
