//! Completion of the arguments of prompts and resource templates.
//!
//! Spec: MCP 2026-07-28, server/utilities/completion.

use crate::macros::object;
use crate::map::Map;
use crate::messages::ResultType;
use crate::union::union;

object! {
    /// Params of `completion/complete`.
    pub struct CompleteParams {
        required {
            /// What the argument belongs to.
            reference: CompletionReference = "ref",
            /// The argument, as far as it is typed.
            argument: CompletionArgument = "argument",
        }
        optional {
            /// The arguments that are settled; since 2025-06-18.
            context: CompletionContext = "context",
        }
        meta = meta;
    }
}

union! {
    /// What a completed argument belongs to.
    pub enum CompletionReference by "type" {
        /// A prompt.
        "ref/prompt" => Prompt(PromptReference),
        /// A resource template.
        "ref/resource" => Resource(ResourceReference),
    }
}

object! {
    /// A prompt, by name.
    pub struct PromptReference {
        tag "type" = "ref/prompt";
        required {
            /// Its name.
            name: String = "name",
        }
        optional {
            /// A name for people; since 2025-06-18.
            title: String = "title",
        }
    }
}

object! {
    /// A resource template, by its URI.
    pub struct ResourceReference {
        tag "type" = "ref/resource";
        required {
            /// The URI or template.
            uri: String = "uri",
        }
    }
}

object! {
    /// An argument, as far as it is typed.
    pub struct CompletionArgument {
        required {
            /// Its name.
            name: String = "name",
            /// What is typed so far.
            value: String = "value",
        }
    }
}

object! {
    /// The arguments that are settled.
    pub struct CompletionContext {
        optional {
            /// By name.
            arguments: Map<String, String> = "arguments",
        }
    }
}

object! {
    /// Result of `completion/complete`.
    pub struct CompleteResult {
        expected {
            /// Always complete.
            result_type: ResultType = "resultType" or ResultType::Complete,
        }
        required {
            /// The proposals.
            completion: Completion = "completion",
        }
        meta = meta;
        open = other;
        check by crate::messages::is_complete;
    }
}

object! {
    /// Proposals for an argument, best first.
    pub struct Completion {
        required {
            /// At most 100.
            values: Vec<String> = "values",
        }
        optional {
            /// How many there are in all.
            total: u64 = "total",
            /// True if there are more.
            has_more: bool = "hasMore",
        }
    }
}
