#![deny(deprecated)]
use mcp_compat::McpToolDescriptor as _;

fn main() {}
