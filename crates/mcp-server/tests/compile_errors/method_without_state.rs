//! A method becomes a tool only with the value that it belongs to.

struct Shelf;

impl Shelf {
    async fn books(&self) -> String {
        String::new()
    }
}

fn main() {
    mcp_server::tool("books", Shelf::books);
}
