#![deny(deprecated)]
use mcp_compat::TokenStorage as _;

fn main() {}
