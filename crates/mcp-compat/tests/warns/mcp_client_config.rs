#![deny(deprecated)]
use mcp_compat::McpClientConfig as _;

fn main() {}
