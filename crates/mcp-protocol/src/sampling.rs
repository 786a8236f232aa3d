//! Sampling: a server asks the host's language model.
//!
//! Spec: MCP 2026-07-28, client/sampling.

use crate::content::Role;
use crate::json::Json;
use crate::macros::{object, string_enum};
use crate::tasks::legacy::TaskParams;
use crate::tools::Tool;

mod content;

pub use content::{SamplingBlock, SamplingContent};

object! {
    /// Params of `sampling/createMessage`.
    pub struct CreateMessageParams {
        required {
            /// The conversation so far.
            messages: Vec<SamplingMessage> = "messages",
            /// The most tokens to produce.
            max_tokens: u64 = "maxTokens",
        }
        optional {
            /// Which model would fit.
            model_preferences: ModelPreferences = "modelPreferences",
            /// What the model is told first.
            system_prompt: String = "systemPrompt",
            /// Context of servers to add; deprecated.
            include_context: IncludeContext = "includeContext",
            /// How freely to choose words.
            temperature: f64 = "temperature",
            /// Where to stop.
            stop_sequences: Vec<String> = "stopSequences",
            /// For the model's provider.
            metadata: Json = "metadata",
            /// Tools the model may use; since 2025-11-25.
            tools: Vec<Tool> = "tools",
            /// Whether it has to; since 2025-11-25.
            tool_choice: ToolChoice = "toolChoice",
            /// Asks for a task; 2025-11-25.
            task: TaskParams = "task",
        }
        meta = meta;
        open = other;
    }
}

object! {
    /// One message of a conversation with a model.
    pub struct SamplingMessage {
        required {
            /// Who speaks.
            role: Role = "role",
            /// What is said.
            content: SamplingContent = "content",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// Result of `sampling/createMessage`.
    pub struct CreateMessageResult {
        required {
            /// Who speaks; the assistant.
            role: Role = "role",
            /// What is said.
            content: SamplingContent = "content",
            /// The model that said it.
            model: String = "model",
        }
        optional {
            /// Why it stopped.
            stop_reason: StopReason = "stopReason",
        }
        meta = meta;
        open = other;
    }
}

object! {
    /// Which model would fit.
    pub struct ModelPreferences {
        optional {
            /// Names or parts of names, best first.
            hints: Vec<ModelHint> = "hints",
            /// How much a low price counts, 0 to 1.
            cost_priority: f64 = "costPriority",
            /// How much speed counts, 0 to 1.
            speed_priority: f64 = "speedPriority",
            /// How much ability counts, 0 to 1.
            intelligence_priority: f64 = "intelligencePriority",
        }
        open = other;
    }
}

object! {
    /// A model, or a family of them.
    pub struct ModelHint {
        optional {
            /// A part of its name.
            name: String = "name",
        }
        open = other;
    }
}

object! {
    /// Whether a model has to use a tool.
    pub struct ToolChoice {
        optional {
            /// Absent means it may.
            mode: ToolChoiceMode = "mode",
        }
        open = other;
    }
}

string_enum! {
    /// Whether a model has to use a tool.
    pub enum ToolChoiceMode {
        /// It may.
        Auto = "auto",
        /// It must.
        Required = "required",
        /// It must not.
        None = "none",
    }
}

string_enum! {
    /// Context to add to a conversation.
    pub enum IncludeContext {
        /// None.
        None = "none",
        /// Of the asking server; deprecated.
        ThisServer = "thisServer",
        /// Of all servers; deprecated.
        AllServers = "allServers",
    }
}

string_enum! {
    /// Why a model stopped.
    pub enum StopReason {
        /// It had said all.
        EndTurn = "endTurn",
        /// It came upon a stop sequence.
        StopSequence = "stopSequence",
        /// It had used up its tokens.
        MaxTokens = "maxTokens",
        /// It wants to use a tool.
        ToolUse = "toolUse",
    }
}

impl SamplingMessage {
    /// What the person says.
    #[must_use]
    pub fn user(content: impl Into<SamplingBlock>) -> Self {
        Self::new(Role::User, content.into())
    }

    /// What the model says.
    #[must_use]
    pub fn assistant(content: impl Into<SamplingBlock>) -> Self {
        Self::new(Role::Assistant, content.into())
    }
}
