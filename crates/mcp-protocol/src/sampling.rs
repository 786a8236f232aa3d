//! Sampling: a server requests a completion from the client's language model.
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
    #[doc(alias = "sampling")]
    pub struct CreateMessageParams {
        required {
            /// Conversation so far.
            messages: Vec<SamplingMessage> = "messages",
            /// Maximum number of tokens to generate.
            max_tokens: u64 = "maxTokens",
        }
        optional {
            /// Model preferences.
            model_preferences: ModelPreferences = "modelPreferences",
            /// System prompt.
            system_prompt: String = "systemPrompt",
            /// Servers whose context the client adds to the prompt; deprecated.
            include_context: IncludeContext = "includeContext",
            /// Sampling temperature.
            temperature: f64 = "temperature",
            /// Stop sequences.
            stop_sequences: Vec<String> = "stopSequences",
            /// Metadata for the model provider.
            metadata: Json = "metadata",
            /// Tools that the model may use; since 2025-11-25.
            tools: Vec<Tool> = "tools",
            /// Tool choice; since 2025-11-25.
            tool_choice: ToolChoice = "toolChoice",
            /// Requests execution as a task; 2025-11-25 only.
            task: TaskParams = "task",
        }
        meta = meta;
        open = other;
    }
}

object! {
    /// One message of a sampling conversation.
    pub struct SamplingMessage {
        required {
            /// Role of the speaker.
            role: Role = "role",
            /// Content.
            content: SamplingContent = "content",
        }
        meta = meta in part;
        open = other;
    }
}

object! {
    /// Result of `sampling/createMessage`.
    #[doc(alias = "sampling")]
    pub struct CreateMessageResult {
        required {
            /// Role of the speaker: the assistant.
            role: Role = "role",
            /// Content.
            content: SamplingContent = "content",
            /// Name of the model.
            model: String = "model",
        }
        optional {
            /// Stop reason.
            stop_reason: StopReason = "stopReason",
        }
        meta = meta;
        open = other;
    }
}

object! {
    /// Preferences for the choice of a model.
    pub struct ModelPreferences {
        optional {
            /// Model names or parts of names, most preferred first.
            hints: Vec<ModelHint> = "hints",
            /// Importance of low cost, 0 to 1.
            cost_priority: f64 = "costPriority",
            /// Importance of low latency, 0 to 1.
            speed_priority: f64 = "speedPriority",
            /// Importance of the model's capabilities, 0 to 1.
            intelligence_priority: f64 = "intelligencePriority",
        }
        open = other;
    }
}

object! {
    /// A hint for a model or a model family.
    pub struct ModelHint {
        optional {
            /// Name or part of a name.
            name: String = "name",
        }
        open = other;
    }
}

object! {
    /// Tool choice of a sampling request.
    pub struct ToolChoice {
        optional {
            /// Mode. Absent means `auto`.
            mode: ToolChoiceMode = "mode",
        }
        open = other;
    }
}

string_enum! {
    /// Mode of the tool choice.
    pub enum ToolChoiceMode {
        /// The model may use tools.
        Auto = "auto",
        /// The model must use a tool.
        Required = "required",
        /// The model must not use tools.
        None = "none",
    }
}

string_enum! {
    /// Servers whose context the client adds to the prompt of a sampling request.
    pub enum IncludeContext {
        /// No server.
        None = "none",
        /// The requesting server; deprecated.
        ThisServer = "thisServer",
        /// All servers; deprecated.
        AllServers = "allServers",
    }
}

string_enum! {
    /// Reason why the model stopped generating.
    pub enum StopReason {
        /// The model completed its turn.
        EndTurn = "endTurn",
        /// A stop sequence was generated.
        StopSequence = "stopSequence",
        /// The token limit was reached.
        MaxTokens = "maxTokens",
        /// The model requests a tool use.
        ToolUse = "toolUse",
    }
}

impl SamplingMessage {
    /// Creates a message of the user.
    #[must_use]
    pub fn user(content: impl Into<SamplingBlock>) -> Self {
        Self::new(Role::User, content.into())
    }

    /// Creates a message of the assistant.
    #[must_use]
    pub fn assistant(content: impl Into<SamplingBlock>) -> Self {
        Self::new(Role::Assistant, content.into())
    }
}
