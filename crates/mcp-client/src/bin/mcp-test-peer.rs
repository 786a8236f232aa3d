//! A peer that misbehaves on purpose. See `mcp_client::test_peer`.

fn main() -> std::process::ExitCode {
    mcp_client::test_peer::main(std::env::args().skip(1))
}
