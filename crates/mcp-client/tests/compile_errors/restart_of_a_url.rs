fn main() {
    let _ = mcp_client::ServerConfig::url("https://mcp.example.com/mcp").restarts();
}
