#![deny(deprecated)]
use mcp_compat::ToolSpec as _;

fn main() {}
