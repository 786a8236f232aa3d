//! The smallest server with rmcp: one tool, on standard input and output, with its macros, as its README shows.

use rmcp::{ServiceExt, tool, tool_router, transport::stdio};

#[derive(Clone)]
struct Hello;

#[tool_router(server_handler)]
impl Hello {
    #[tool(description = "Says hello")]
    fn hello(&self) -> String {
        "Hello!".into()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Hello.serve(stdio()).await?.waiting().await?;
    Ok(())
}
