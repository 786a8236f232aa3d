//! The function is not async, and not declared as blocking.

fn main() {
    mcp_server::tool("hello", || "Hello!");
}
