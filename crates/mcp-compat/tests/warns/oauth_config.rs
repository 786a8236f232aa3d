#![deny(deprecated)]
use mcp_compat::OAuthConfig as _;

fn main() {}
