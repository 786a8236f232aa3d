//! The server keeps working after every fault of `mcp-test-peer`. Copy this test for your own server; it needs only that
//! program.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::process::Command;

#[test]
fn the_server_serves_on_after_every_fault_of_a_client() {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "-p", "mcp-client", "--all-features", "--bin", "mcp-test-peer"])
        .status();
    assert!(built.unwrap().success());
    let server = env!("CARGO_BIN_EXE_example-everything");
    let client = Path::new(server).with_file_name("mcp-test-peer");
    // Each fault with the number of messages that the server sends for it.
    for (fault, said) in [
        ("garbage", 3),
        ("batch", 2),
        ("deep", 1),
        ("duplicate-ids", 2),
        ("cancel-unknown", 0),
        ("half-a-line", 1),
        ("long-line", 1),
    ] {
        let output = Command::new(&client).args(["client", fault, "--", server]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(told.trim(), format!("{fault}: the server wrote {said} lines and still responds"));
        assert!(output.status.success());
    }
    let unknown = Command::new(&client).args(["client", "unheard-of", "--", server]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
}
