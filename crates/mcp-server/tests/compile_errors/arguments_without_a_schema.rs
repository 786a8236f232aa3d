//! The arguments derive `Deserialize` only.

#[derive(serde::Deserialize)]
struct Add {
    a: i64,
}

fn main() {
    mcp_server::tool("add", |Add { a }: Add| async move { a.to_string() });
}
