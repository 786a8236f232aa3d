//! More than arguments and a context.

use mcp_server::{Context, NoArgs};

async fn three(_: NoArgs, _: Context, _: String) -> String {
    String::new()
}

fn main() {
    mcp_server::tool("three", three);
}
