#![deny(deprecated)]
use mcp_compat::ToolFilter as _;

fn main() {}
