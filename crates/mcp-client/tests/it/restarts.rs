//! Servers that exit and are restarted.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mcp_client::protocol::Limits;
use mcp_client::protocol::subscriptions::SubscriptionFilter;
use mcp_client::{Change, CommandTarget, EndCause, Error, McpClient, Sent, ServerConfig};
use serde_json::json;

use crate::support::{group_gone_within, harmless, peer, unharmed};

const BOTH: [&str; 2] = ["legacy", "modern"];

/// Where a server writes down its lives; gone when dropped.
struct Lives(PathBuf);

impl Lives {
    fn new(name: &str) -> Self {
        let file =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lives-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        Self(file)
    }

    fn count(&self) -> usize {
        std::fs::read_to_string(&self.0).unwrap().lines().count()
    }

    fn last(&self) -> u32 {
        std::fs::read_to_string(&self.0).unwrap().lines().last().unwrap().parse().unwrap()
    }

    fn server(&self, options: &[&str]) -> ServerConfig<CommandTarget> {
        peer(options).arg("--lives").arg(self.0.as_os_str()).restarts()
    }
}

impl Drop for Lives {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn exited_server_is_restarted_once_by_the_next_calls() {
    harmless(async {
        for era in BOTH {
            let lives = Lives::new(&format!("next-{era}"));
            let client = McpClient::connect(lives.server(&["--era", era])).await.unwrap();
            let first = client.process_group().unwrap();
            let error = client.call("exit", json!({"code": 7})).await.unwrap_err();
            assert!(matches!(&error, Error::Lost { sent: Sent::Maybe, .. }), "{error:?}");
            assert_eq!(client.exit_status().unwrap().code(), Some(7));
            // Nobody needs it yet.
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(lives.count(), 1);
            // All who come at once wait for one start.
            let calls = (0..20).map(|number| client.call("echo", json!({"text": number.to_string()})));
            let calls: Vec<_> = calls.map(|call| tokio::spawn(call.into_future())).collect();
            for (number, call) in calls.into_iter().enumerate() {
                assert_eq!(call.await.unwrap().unwrap().text(), number.to_string());
            }
            assert_eq!(lives.count(), 2);
            assert!(client.ended().is_none());
            let second = client.process_group().unwrap();
            assert_ne!(first, second);
            client.close().await;
            group_gone_within(second, Duration::from_millis(100)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn list_is_retried_after_a_crash_but_a_tool_call_is_not() {
    harmless(async {
        for era in BOTH {
            let lives = Lives::new(&format!("reads-{era}"));
            let config = lives.server(&["--era", era, "--dies-of", "tools/list"]);
            let client = McpClient::connect(config).await.unwrap();
            assert_eq!(client.list_tools().await.unwrap().len(), 1);
            assert_eq!(lives.count(), 2);
            client.close().await;

            let lives = Lives::new(&format!("acts-{era}"));
            let config = lives.server(&["--era", era, "--dies-of", "tools/call"]);
            let client = McpClient::connect(config).await.unwrap();
            let error = client.call("echo", json!({"text": "twice?"})).await.unwrap_err();
            assert!(error.may_have_happened() && !error.is_retry_safe(), "{error:?}");
            assert_eq!(lives.count(), 1);
            unharmed(&client).await;
            client.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn server_that_keeps_exiting_is_not_restarted_after_five_starts() {
    harmless(async {
        let client = McpClient::connect(peer(&["--dies-of", "tools/list"]).restarts()).await.unwrap();
        let mut lost = 0;
        let error = loop {
            match client.list_tools().await.unwrap_err() {
                Error::Lost { .. } => lost += 1,
                error => break error,
            }
        };
        let Error::TooManyRestarts { wait, ended, .. } = &error else { panic!("{error:?}") };
        assert!(*wait > Duration::from_secs(20) && *wait <= Duration::from_secs(30), "{wait:?}");
        assert_eq!(ended.status.unwrap().code(), Some(3));
        assert!(error.to_string().contains("cannot handle tools/list"), "{error}");
        assert!(error.is_retry_safe() && !error.may_have_happened());
        // Each of them has it started once; the sixth start is refused.
        assert_eq!(lost, 5);
        let began = Instant::now();
        assert!(matches!(client.list_tools().await, Err(Error::TooManyRestarts { .. })));
        assert!(began.elapsed() < Duration::from_secs(1));
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn subscriptions_are_restored_after_a_restart_with_a_gap() {
    harmless(async {
        for era in BOTH {
            let lives = Lives::new(&format!("follows-{era}"));
            let client = McpClient::connect(lives.server(&["--era", era])).await.unwrap();
            let mut filter = SubscriptionFilter::new().tools_list_changed(true);
            if era == "legacy" {
                filter = filter.resource_subscriptions(["file:///a".to_owned()]);
            }
            let mut changes = client.changes(filter).await.unwrap();
            client.call("change", json!({})).await.unwrap();
            assert_eq!(changes.next().await, Some(Change::Tools));
            if era == "legacy" {
                assert_eq!(changes.next().await, Some(Change::Resource("file:///a".to_owned())));
            }
            client.call("exit", json!({"code": 0})).await.unwrap_err();
            // Whoever waits for changes has it started again.
            assert_eq!(changes.next().await, Some(Change::Gap));
            assert_eq!(lives.count(), 2);
            client.call("change", json!({})).await.unwrap();
            assert_eq!(changes.next().await, Some(Change::Tools));
            if era == "legacy" {
                assert_eq!(changes.next().await, Some(Change::Resource("file:///a".to_owned())));
            }
            // Dropped, the stream of the new life is the one that is cancelled.
            drop(changes);
            let cancelled = client.call("cancelled", json!({})).await.unwrap().text();
            assert_eq!(cancelled, if era == "legacy" { "0" } else { "1" });
            client.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn refused_resubscription_after_a_restart_ends_the_changes() {
    harmless(async {
        let lives = Lives::new("refuses-legacy");
        let client = McpClient::connect(lives.server(&["--era", "legacy", "--refuses-later"])).await.unwrap();
        let uris = SubscriptionFilter::new().resource_subscriptions(["file:///a".to_owned()]);
        let mut refused = client.changes(uris.clone()).await.unwrap();
        let mut lists = client.changes(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        client.call("exit", json!({"code": 0})).await.unwrap_err();
        assert_eq!(refused.next().await, Some(Change::Gap));
        assert_eq!(refused.next().await, None, "it would never report the resource");
        assert_eq!(refused.acknowledged(), &uris);
        // Others go on.
        assert_eq!(lists.next().await, Some(Change::Gap));
        client.call("change", json!({})).await.unwrap();
        assert_eq!(lists.next().await, Some(Change::Tools));
        // The reason is given to whoever subscribes again.
        let error = client.changes(uris).await.unwrap_err();
        assert!(error.to_string().contains("not any more"), "{error}");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn acknowledged_is_that_of_the_new_server_after_a_restart() {
    harmless(async {
        let lives = Lives::new("acknowledges-less");
        let client = McpClient::connect(lives.server(&["--era", "modern", "--refuses-later"])).await.unwrap();
        let filter = SubscriptionFilter::new().tools_list_changed(true);
        let mut changes = client.changes(filter.clone()).await.unwrap();
        assert_eq!(changes.acknowledged(), &filter);
        client.call("exit", json!({"code": 0})).await.unwrap_err();
        assert_eq!(changes.acknowledged(), &filter, "until the gap");
        assert_eq!(changes.next().await, Some(Change::Gap));
        assert_eq!(changes.acknowledged(), &SubscriptionFilter::new());
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn close_aborts_a_restart_and_ends_streams() {
    harmless(async {
        // A start that is under way is gone when `close` returns.
        let lives = Lives::new("closing-start");
        let config = lives.server(&["--era", "legacy", "--dies-of", "tools/call", "--silent-later"]);
        let client = McpClient::connect(config).await.unwrap();
        client.call("echo", json!({"text": "dies"})).await.unwrap_err();
        let other = client.clone();
        let waits = tokio::spawn(async move { other.call("echo", json!({"text": "never"})).await });
        while lives.count() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let starting: u32 = lives.last();
        client.close().await;
        assert!(!Path::new(&format!("/proc/{starting}")).exists());
        waits.await.unwrap().unwrap_err();

        let lives = Lives::new("closing");
        let client = McpClient::connect(lives.server(&["--era", "legacy"])).await.unwrap();
        let mut changes = client.changes(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        let mut logs = client.log_messages();
        client.call("exit", json!({"code": 0})).await.unwrap_err();
        // The first start is immediate, the second has to wait: somebody waits for it when the client is closed.
        client.call("exit", json!({"code": 0})).await.unwrap_err();
        let other = client.clone();
        let waits = tokio::spawn(async move { other.call("echo", json!({"text": "never"})).await });
        let reader = tokio::spawn(async move { while changes.next().await.is_some() {} });
        tokio::time::sleep(Duration::from_millis(50)).await;
        client.close().await;
        let error = waits.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Lost { sent: Sent::No, .. }), "{error:?}");
        reader.await.unwrap();
        assert!(logs.next().await.is_none());
        assert_eq!(lives.count(), 2);
    })
    .await;
}

#[tokio::test]
async fn call_timeout_bounds_the_wait_for_a_restart_that_continues() {
    harmless(async {
        let lives = Lives::new("slow");
        let client = McpClient::connect(lives.server(&["--era", "legacy"])).await.unwrap();
        client.call("exit", json!({"code": 0})).await.unwrap_err();
        client.call("exit", json!({"code": 0})).await.unwrap_err();
        let soon = Duration::from_millis(50);
        let began = Instant::now();
        let error = client.call("echo", json!({"text": "soon"})).timeout(soon).await.unwrap_err();
        // It never left, and that is what counts.
        assert!(matches!(error, Error::Lost { sent: Sent::No, .. }) && error.is_retry_safe(), "{error:?}");
        assert!(began.elapsed() < Duration::from_millis(200));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(lives.count(), 3);
        unharmed(&client).await;
        // Dropped while a start is under way, nothing is left either: that is looked for after this test.
        client.call("exit", json!({"code": 0})).await.unwrap_err();
        let _ = client.call("echo", json!({"text": "soon"})).timeout(soon).await;
    })
    .await;
}

#[tokio::test]
async fn server_is_not_restarted_unless_restarts_are_enabled() {
    harmless(async {
        let client = McpClient::connect(peer(&[])).await.unwrap();
        client.call("exit", json!({"code": 0})).await.unwrap_err();
        let error = client.call("echo", json!({"text": "anybody?"})).await.unwrap_err();
        assert!(matches!(error, Error::Lost { sent: Sent::No, .. }), "{error:?}");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn restart_after_an_abandoned_start_succeeds() {
    harmless(async {
        let lives = Lives::new("old-news");
        let client = McpClient::connect(lives.server(&["--era", "legacy"])).await.unwrap();
        client.call("exit", json!({"code": 0})).await.unwrap_err();
        client.call("exit", json!({"code": 0})).await.unwrap_err();
        // This one does not wait for the start, which succeeds all the same, and the server ends once more.
        let soon = Duration::from_millis(50);
        client.call("echo", json!({"text": "soon"})).timeout(soon).await.unwrap_err();
        while lives.count() < 3 || client.ended().is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        client.call("exit", json!({"code": 0})).await.unwrap_err();
        unharmed(&client).await;
        assert_eq!(lives.count(), 4);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn restart_time_counts_towards_the_total_timeout() {
    harmless(async {
        let lives = Lives::new("total");
        let client = McpClient::connect(lives.server(&["--era", "legacy"])).await.unwrap();
        client.call("exit", json!({"code": 0})).await.unwrap_err();
        client.call("exit", json!({"code": 0})).await.unwrap_err();
        // The start waits for 250 ms, and what is asked is never answered.
        let began = Instant::now();
        let total = Duration::from_millis(1000);
        let error = client.call("wait", json!({})).total_timeout(total).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
        assert!(began.elapsed() < Duration::from_millis(1200), "{:?}", began.elapsed());
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn server_disconnected_for_flooding_is_restarted_by_next_call() {
    harmless(async {
        // Little may wait to be written, and a hundred refusals are more.
        let config = peer(&["--era", "legacy"]).limits(Limits::default().message(2 << 10)).restarts();
        let client = McpClient::connect(config).await.unwrap();
        let error = client.call("ask", json!({"times": 10_000})).await.unwrap_err();
        assert!(matches!(&error, Error::Lost { ended, .. } if ended.cause == EndCause::Flood), "{error:?}");
        unharmed(&client).await;
        unharmed(&client).await;
        client.close().await;
    })
    .await;
}
