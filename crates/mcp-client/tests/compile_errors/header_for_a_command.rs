fn main() {
    let _ = mcp_client::ServerConfig::command("weather").header("X-Team", "blue");
}
