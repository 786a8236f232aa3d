//! The methods of all five revisions. [`crate::dialect`] defines which revision has which method.

use crate::macros::string_enum;

string_enum! {
    /// The method of a request or notification.
    ///
    /// ```
    /// use mcp_protocol::messages::Method;
    ///
    /// assert_eq!(Method::from("tools/call"), Method::ToolsCall);
    /// assert_eq!(Method::from("acme/undo").as_str(), "acme/undo");
    /// ```
    pub enum Method {
        /// Opens a connection; legacy.
        Initialize = "initialize",
        /// Checks that the other side responds; legacy.
        Ping = "ping",
        /// Requests the server's versions and capabilities; modern.
        Discover = "server/discover",
        /// Lists tools.
        ToolsList = "tools/list",
        /// Calls a tool.
        ToolsCall = "tools/call",
        /// Lists resources.
        ResourcesList = "resources/list",
        /// Lists resource templates.
        ResourceTemplatesList = "resources/templates/list",
        /// Reads a resource.
        ResourcesRead = "resources/read",
        /// Subscribes to updates of a resource; legacy.
        ResourcesSubscribe = "resources/subscribe",
        /// Unsubscribes from a resource; legacy.
        ResourcesUnsubscribe = "resources/unsubscribe",
        /// Lists prompts.
        PromptsList = "prompts/list",
        /// Requests the messages of a prompt.
        PromptsGet = "prompts/get",
        /// Completes an argument.
        Complete = "completion/complete",
        /// Sets the log level of a connection; legacy.
        SetLevel = "logging/setLevel",
        /// Opens a notification stream; modern.
        Listen = "subscriptions/listen",
        /// Requests the status of a task.
        TasksGet = "tasks/get",
        /// Cancels a task.
        TasksCancel = "tasks/cancel",
        /// Waits for a task's result; 2025-11-25 only.
        TasksResult = "tasks/result",
        /// Lists tasks; 2025-11-25 only.
        TasksList = "tasks/list",
        /// Sends responses to a task's input requests; modern extension.
        TasksUpdate = "tasks/update",
        /// Requests a completion from the client's language model.
        #[doc(alias = "sampling")]
        CreateMessage = "sampling/createMessage",
        /// Requests the client's roots.
        RootsList = "roots/list",
        /// Requests input from the user.
        #[doc(alias = "elicitation")]
        Elicit = "elicitation/create",
        /// Completes the legacy handshake.
        Initialized = "notifications/initialized",
        /// Cancels a request in flight.
        #[doc(alias = "cancellation")]
        Cancelled = "notifications/cancelled",
        /// Reports the progress of a request in flight.
        Progress = "notifications/progress",
        /// A log message.
        LogMessage = "notifications/message",
        /// The list of tools changed.
        ToolsChanged = "notifications/tools/list_changed",
        /// The list of prompts changed.
        PromptsChanged = "notifications/prompts/list_changed",
        /// The list of resources changed.
        ResourcesChanged = "notifications/resources/list_changed",
        /// A resource changed.
        ResourceUpdated = "notifications/resources/updated",
        /// The list of roots changed; legacy.
        RootsChanged = "notifications/roots/list_changed",
        /// The interaction at a URL is complete; 2025-11-25 only.
        ElicitationComplete = "notifications/elicitation/complete",
        /// The status of a task changed; 2025-11-25 only.
        TaskStatus = "notifications/tasks/status",
        /// The first message of a notification stream; modern.
        SubscriptionAcknowledged = "notifications/subscriptions/acknowledged",
        /// The status of a task changed; modern extension.
        TaskChanged = "notifications/tasks",
    }
}

impl Method {
    /// Returns true for methods of notifications.
    #[must_use]
    pub fn is_notification(&self) -> bool {
        self.as_str().starts_with("notifications/")
    }
}
