//! A method of shared state is not async.

use mcp_server::state;

struct Shelf;

impl Shelf {
    fn books(&self) -> String {
        String::new()
    }
}

fn main() {
    state(Shelf).tool("books", Shelf::books);
}
