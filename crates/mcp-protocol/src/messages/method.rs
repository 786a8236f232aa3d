//! The methods of all five revisions. Which revision has which is told by [`crate::dialect`].

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
        /// Opens a legacy connection.
        Initialize = "initialize",
        /// Asks whether the other side lives; legacy.
        Ping = "ping",
        /// Asks what the server is and can; modern.
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
        /// Asks for news of a resource; legacy.
        ResourcesSubscribe = "resources/subscribe",
        /// Ends that; legacy.
        ResourcesUnsubscribe = "resources/unsubscribe",
        /// Lists prompts.
        PromptsList = "prompts/list",
        /// Fills in a prompt.
        PromptsGet = "prompts/get",
        /// Completes an argument.
        Complete = "completion/complete",
        /// Sets the log level of a connection; legacy.
        SetLevel = "logging/setLevel",
        /// Opens a stream of changes; modern.
        Listen = "subscriptions/listen",
        /// Asks for a task's state.
        TasksGet = "tasks/get",
        /// Asks to end a task.
        TasksCancel = "tasks/cancel",
        /// Waits for a task's result; 2025-11-25.
        TasksResult = "tasks/result",
        /// Lists tasks; 2025-11-25.
        TasksList = "tasks/list",
        /// Answers a task's input requests; modern extension.
        TasksUpdate = "tasks/update",
        /// Asks the host's language model.
        CreateMessage = "sampling/createMessage",
        /// Asks for the host's roots.
        RootsList = "roots/list",
        /// Asks the person in front of the host.
        Elicit = "elicitation/create",
        /// Ends the legacy handshake.
        Initialized = "notifications/initialized",
        /// A request is no longer wanted.
        Cancelled = "notifications/cancelled",
        /// How far a request is.
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
        /// What a URL asked for is done; 2025-11-25.
        ElicitationComplete = "notifications/elicitation/complete",
        /// A task changed; 2025-11-25.
        TaskStatus = "notifications/tasks/status",
        /// The first message of a stream of changes; modern.
        SubscriptionAcknowledged = "notifications/subscriptions/acknowledged",
        /// A task changed; modern extension.
        TaskChanged = "notifications/tasks",
    }
}

impl Method {
    /// True for the methods of notifications, which never are requests.
    #[must_use]
    pub fn is_notification(&self) -> bool {
        self.as_str().starts_with("notifications/")
    }
}
