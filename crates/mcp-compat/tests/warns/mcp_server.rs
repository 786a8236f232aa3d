#![deny(deprecated)]
use mcp_compat::McpServer as _;

fn main() {}
