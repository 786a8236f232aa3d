//! A resource is text or bytes.

use mcp_server::protocol::resources::Resource;

fn main() {
    mcp_server::resource(Resource::new("motd://today", "motd"), || async { 42 });
}
