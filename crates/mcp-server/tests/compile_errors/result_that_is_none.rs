//! A number is no text, and nothing says that it is structured.

fn main() {
    mcp_server::tool("answer", || async { 42 });
}
