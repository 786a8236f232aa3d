#![deny(deprecated)]
use mcp_compat::McpClient as _;

fn main() {}
