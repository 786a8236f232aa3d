//! Connects to two servers and routes each call by its callable name. `cargo run -p example-two-servers` lists the tools,
//! `cargo run -p example-two-servers -- mcp__greeter__hello '{"name": "world"}'` calls one.

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;

use mcp_client::protocol::Json;
use mcp_client::protocol::names::NameTable;
use mcp_client::protocol::safe_text::SafeText;
use mcp_client::protocol::tools::Tool;
use mcp_client::{McpClient, ServerConfig, ToolResult, unless_interrupted};

/// Connected servers by name, and the callable names of their tools.
#[derive(Default)]
struct Servers {
    clients: BTreeMap<String, McpClient>,
    names: NameTable,
}

impl Servers {
    /// Adds a server. Returns its tools with the names by which a language model calls them.
    async fn add(&mut self, server: &str, client: McpClient) -> mcp_client::Result<Vec<Tool>> {
        let mut tools = client.list_tools().await?;
        tools.retain_mut(|tool| match self.names.insert(server, &tool.name) {
            Ok(name) => {
                tool.name = name;
                true
            }
            Err(taken) => {
                eprintln!("{taken}");
                false
            }
        });
        self.clients.insert(server.to_owned(), client);
        Ok(tools)
    }

    /// Calls a tool by its callable name.
    async fn call(&self, name: &str, arguments: Json) -> Result<ToolResult, Box<dyn Error>> {
        let (server, tool) = self.names.get(name).ok_or("unknown tool; list the tools first")?;
        let client = self.clients.get(server).ok_or("the server is not connected")?;
        Ok(client.call(tool, arguments).await?)
    }

    async fn close(self) {
        for client in self.clients.into_values() {
            client.close().await;
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match unless_interrupted(run()).await {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        None => ExitCode::from(130),
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let example = |name| ServerConfig::command("cargo").args(["run", "--quiet", "-p", name]);
    // Both start at the same time. A server that does not start is reported, and the other one is used.
    let (greeter, tasks) = tokio::join!(
        McpClient::connect(example("example-hello")),
        McpClient::connect(example("example-tasks")),
    );
    let (mut servers, mut tools) = (Servers::default(), Vec::new());
    for (name, connected) in [("greeter", greeter), ("tasks", tasks)] {
        let added = match connected {
            Ok(client) => servers.add(name, client).await,
            Err(error) => Err(error),
        };
        match added {
            Ok(found) => tools.extend(found),
            Err(error) => eprintln!("{name}: {error}"),
        }
    }
    let done = act(&servers, tools).await;
    servers.close().await;
    done
}

/// Calls the tool that the command line names, or prints all tools.
async fn act(servers: &Servers, tools: Vec<Tool>) -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    if let Some(name) = words.next() {
        let arguments: Json = words.next().as_deref().unwrap_or("{}").parse()?;
        println!("{}", SafeText::new(&servers.call(&name, arguments).await?.ok()?.text()));
        return Ok(());
    }
    for tool in tools {
        let description = tool.description.unwrap_or_default();
        println!("{}: {}", SafeText::name(&tool.name), SafeText::message(&description));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
