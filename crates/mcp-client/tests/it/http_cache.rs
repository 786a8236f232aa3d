//! Cached responses and cached negotiation results of servers behind a URL.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mcp_client::{Cache, McpClient, NegotiationCache, ServerConfig};
use serde_json::json;

use crate::web::{Say, Seen, against, legacy, modern};

#[tokio::test]
async fn cached_responses_are_reused_and_private_ones_stay_private() {
    let script = |seen: &Seen| {
        match seen.method() {
        "tools/list" => seen.result(json!({"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private",
            "tools": [{"name": seen.header("authorization").unwrap_or("nobody"), "inputSchema": {"type": "object"}}]})),
        "resources/read" => seen.result(json!({"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public",
            "contents": [{"uri": "a:b", "text": "content"}]})),
        _ => modern(seen),
    }
    };
    against(script, |web| async move {
        let cache = Cache::new();
        for who in ["one", "two"] {
            let config = ServerConfig::url(&web.url).bearer_token(who);
            let client = McpClient::builder(config).cache(&cache).connect().await.unwrap();
            for _ in 0..3 {
                assert_eq!(client.list_tools().await.unwrap()[0].name, format!("Bearer {who}"));
                client.read_resource("a:b").await.unwrap();
            }
            client.close().await;
        }
        assert_eq!((web.count("tools/list"), web.count("resources/read")), (2, 1));
        cache.clear();
        let config = ServerConfig::url(&web.url).bearer_token("one");
        let client = McpClient::builder(config).cache(&Cache::none()).connect().await.unwrap();
        client.list_tools().await.unwrap();
        client.list_tools().await.unwrap();
        assert_eq!(web.count("tools/list"), 4);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn cached_negotiation_result_skips_the_probe() {
    against(
        |seen| legacy(seen, "s"),
        |web| async move {
            let negotiation_cache = NegotiationCache::new();
            for _ in 0..2 {
                let client = McpClient::builder(ServerConfig::url(&web.url))
                    .negotiation_cache(&negotiation_cache)
                    .connect()
                    .await
                    .unwrap();
                client.close().await;
            }
            assert_eq!((web.count("server/discover"), web.count("initialize")), (1, 2));
        },
    )
    .await;
}

#[tokio::test]
async fn server_error_does_not_discard_the_cached_negotiation() {
    let is_down = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let script = move |seen: &Seen| match down.load(Ordering::SeqCst) {
        true => Say::status(500, &[], ""),
        false => legacy(seen, "s"),
    };
    against(script, |web| async move {
        let negotiation_cache = NegotiationCache::new();
        let connect = || {
            McpClient::builder(ServerConfig::url(&web.url)).negotiation_cache(&negotiation_cache).connect()
        };
        connect().await.unwrap().close().await;
        let kept = negotiation_cache.to_text();
        is_down.store(true, Ordering::SeqCst);
        let before = web.methods().len();
        connect().await.unwrap_err();
        assert_eq!(web.methods()[before..], ["initialize"]);
        assert_eq!(negotiation_cache.to_text(), kept);
    })
    .await;
}
