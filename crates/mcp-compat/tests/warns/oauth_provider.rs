#![deny(deprecated)]
use mcp_compat::OAuthProvider as _;

fn main() {}
