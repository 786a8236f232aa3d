//! A to-do list: three tools, a resource and a prompt over one shared state: `cargo run -p example-tasks`
use std::process::ExitCode;

use mcp_server::protocol::resources::Resource;
use mcp_server::{McpServer, Structured, ToolError, state};
use tokio::sync::Mutex;

#[derive(Clone, serde::Serialize, schemars::JsonSchema)]
struct Task {
    title: String,
    is_done: bool,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NewTask {
    /// What has to be done.
    title: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct TaskNumber {
    /// The number of the task, starting at 1.
    number: usize,
}

#[derive(Default)]
struct Tasks(Mutex<Vec<Task>>);

impl Tasks {
    async fn add(&self, NewTask { title }: NewTask) -> String {
        let mut tasks = self.0.lock().await;
        tasks.push(Task { title, is_done: false });
        format!("task {}", tasks.len())
    }

    async fn complete(&self, TaskNumber { number }: TaskNumber) -> Result<(), ToolError> {
        let mut tasks = self.0.lock().await;
        let task = number.checked_sub(1).and_then(|index| tasks.get_mut(index));
        task.ok_or_else(|| ToolError::new(format!("no task {number}; list the tasks first")))?.is_done = true;
        Ok(())
    }

    async fn list(&self) -> Structured<Vec<Task>> {
        Structured(self.0.lock().await.clone())
    }

    async fn text(&self) -> String {
        let line = |task: &Task| format!("- [{}] {}\n", if task.is_done { "x" } else { " " }, task.title);
        self.0.lock().await.iter().map(line).collect()
    }

    async fn plan(&self) -> String {
        format!("Put these tasks into a sensible order:\n{}", self.text().await)
    }
}

fn server() -> McpServer {
    let tasks = state(Tasks::default());
    McpServer::named("tasks", env!("CARGO_PKG_VERSION"))
        .tool(tasks.tool("add_task", Tasks::add).description("Adds a task."))
        .tool(tasks.tool("complete_task", Tasks::complete).description("Marks a task as done."))
        .tool(tasks.tool("list_tasks", Tasks::list).description("Lists all tasks.").read_only())
        .resource(tasks.resource(Resource::new("tasks://all", "tasks").mime_type("text/plain"), Tasks::text))
        .prompt(tasks.prompt("plan", Tasks::plan))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let served = server().serve_stdio().await.inspect_err(|error| eprintln!("{error}"));
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests;
