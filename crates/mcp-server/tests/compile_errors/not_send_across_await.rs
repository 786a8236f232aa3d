//! A value that must stay on its thread is held across an `await`.

use std::rc::Rc;

fn main() {
    mcp_server::tool("count", || async {
        let count = Rc::new(1);
        std::future::ready(()).await;
        count.to_string()
    });
}
