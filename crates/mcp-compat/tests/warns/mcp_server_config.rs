#![deny(deprecated)]
use mcp_compat::McpServerConfig as _;

fn main() {}
