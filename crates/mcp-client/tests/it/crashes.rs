//! A host that is killed: what honours the end of input is gone, and the ledger names the rest.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mcp_client::{Ledger, McpClient};

use crate::support::{group_gone_within, group_lives, peer};

/// Not a test of its own: the host that is killed by the next one.
#[tokio::test]
async fn a_host_that_waits_to_be_killed() {
    let Ok(folder) = std::env::var("TEST_LEDGER") else { return };
    let (ledger, _) = Ledger::open(format!("{folder}/ledger")).unwrap();
    let good = McpClient::builder(peer(&[])).ledger(&ledger).connect().await.unwrap();
    let bad = McpClient::builder(peer(&["--stubborn"])).ledger(&ledger).connect().await.unwrap();
    let groups =
        [good, bad].map(|client| (client.process_group().unwrap(), std::mem::ManuallyDrop::new(client)));
    std::fs::write(format!("{folder}/groups"), format!("{} {}\n", groups[0].0, groups[1].0)).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn ledger_reports_leftover_servers_after_a_host_crash() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crashes::a_host_that_waits_to_be_killed"])
        .env("TEST_LEDGER", folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let text = loop {
        match std::fs::read_to_string(folder.path().join("groups")) {
            Ok(text) if text.ends_with('\n') => break text,
            _ => assert!(Instant::now() < until),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let groups: Vec<u32> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let ledger = folder.path().join("ledger");
    assert_eq!(Ledger::open(&ledger).unwrap().1, [], "the host lives");
    host.kill().unwrap();
    host.wait().unwrap();
    group_gone_within(groups[0], Duration::from_secs(2)).await;
    assert!(group_lives(groups[1]));
    let (_ledger, left) = Ledger::open(&ledger).unwrap();
    assert_eq!(left.iter().map(|left| left.group()).collect::<Vec<_>>(), [groups[1]]);
    assert!(left[0].program().contains("--stubborn"));
    assert!(group_lives(groups[1]), "it is only told");
    assert!(left[0].kill());
    group_gone_within(groups[1], Duration::from_secs(1)).await;
    assert_eq!(Ledger::open(&ledger).unwrap().1, []);
}
