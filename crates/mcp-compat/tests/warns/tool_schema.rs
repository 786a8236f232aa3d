#![deny(deprecated)]
use mcp_compat::ToolSchema as _;

fn main() {}
