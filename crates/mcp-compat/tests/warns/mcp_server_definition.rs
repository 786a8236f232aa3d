#![deny(deprecated)]
use mcp_compat::McpServerDefinition as _;

fn main() {}
