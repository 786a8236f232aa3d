//! A method of shared state holds a lock of the standard library across an `await`.

use std::sync::Mutex;

use mcp_server::state;

struct Shelf(Mutex<Vec<String>>);

impl Shelf {
    async fn books(&self) -> String {
        let books = self.0.lock().unwrap();
        std::future::ready(()).await;
        books.join(", ")
    }
}

fn main() {
    state(Shelf(Mutex::default())).tool("books", Shelf::books);
}
