//! How the client detects the era of a server process, against real processes.

use std::time::{Duration, Instant};

use mcp_client::protocol::negotiation::{HandshakeFailure, Mode, NegotiationError};
use mcp_client::protocol::roots::Root;
use mcp_client::protocol::{Era, ProtocolVersion};
use mcp_client::{Blame, CommandTarget, Error, Handlers, McpClient, ServerConfig, StartError};

use crate::support::{harmless, peer, unharmed};

fn error(code: i64) -> String {
    format!(r#""error":{{"code":{code},"message":"no"}}"#)
}

fn unsupported(versions: &str) -> String {
    format!(
        r#""error":{{"code":-32022,"message":"no","data":{{"supported":[{versions}],"requested":"2026-07-28"}}}}"#
    )
}

fn discovered(versions: &str) -> String {
    format!(
        r#""result":{{"resultType":"complete","supportedVersions":[{versions}],"capabilities":{{"tools":{{}}}},"ttlMs":0,"cacheScope":"private"}}"#
    )
}

/// Connects, and demands an era and that it works.
async fn speaks(options: &[&str], era: Era) {
    let client =
        McpClient::connect(peer(options)).await.unwrap_or_else(|error| panic!("{options:?}: {error}"));
    assert_eq!(client.era(), era, "{options:?}");
    unharmed(&client).await;
    client.close().await;
}

/// Connects, and demands that it fails.
async fn fails(config: ServerConfig<CommandTarget>) -> NegotiationError {
    match McpClient::connect(config).await {
        Err(Error::Connect { error: source, .. }) => *source,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn discover_result_decides_the_era_by_common_versions() {
    harmless(async {
        speaks(&["--era", "modern"], Era::Modern).await;
        speaks(&["--discover", &discovered(r#""2025-06-18","1999-01-01""#)], Era::Legacy).await;
        let nothing = fails(peer(&["--discover", &discovered(r#""1999-01-01""#)])).await;
        assert!(
            nothing.to_string().contains("2026-07-28") && nothing.to_string().contains("1999-01-01"),
            "{nothing}"
        );
        speaks(&["--discover", r#""result":{"hello":"world"}"#], Era::Legacy).await;
    })
    .await;
}

#[tokio::test]
async fn error_to_the_probe_decides_the_era_by_its_code() {
    harmless(async {
        let same = fails(peer(&["--discover", &unsupported(r#""2026-07-28""#)])).await;
        assert!(matches!(same, NegotiationError::Rejected(_)), "{same}");
        speaks(&["--discover", &unsupported(r#""2025-06-18""#)], Era::Legacy).await;
        let nothing = fails(peer(&["--discover", &unsupported(r#""1999-01-01""#)])).await;
        assert!(matches!(nothing, NegotiationError::NoCommonVersion { .. }), "{nothing}");
        let capability =
            r#""error":{"code":-32021,"message":"no","data":{"requiredCapabilities":{"sampling":{}}}}"#;
        for modern_but_refused in [capability.to_owned(), error(-32020)] {
            let refused = fails(peer(&["--discover", &modern_but_refused])).await;
            assert!(matches!(refused, NegotiationError::Rejected(_)), "{refused}");
        }
        for code in [-32022, -32601, -32602, -32600, -32603, -32700, -32000, -32042, -1, 0] {
            speaks(&["--discover", &error(code)], Era::Legacy).await;
        }
    })
    .await;
}

#[tokio::test]
async fn modern_version_is_chosen_from_the_configured_versions() {
    // The client pretends to prefer a version that does not exist yet.
    let config = peer(&["--era", "modern"]);
    let versions = [ProtocolVersion::V2026_07_28, ProtocolVersion::V2025_11_25];
    let client = McpClient::builder(config).versions(versions).connect().await.unwrap();
    assert_eq!(client.version(), &ProtocolVersion::V2026_07_28);
    client.close().await;
}

#[tokio::test]
async fn probe_is_settled_despite_null_id_array_or_foreign_response() {
    harmless(async {
        let refused = error(-32601);
        for form in ["null", "array", "other"] {
            speaks(&["--era", "legacy", "--discover-as", form, "--discover", &refused], Era::Legacy).await;
        }
        speaks(&["--discover-as", "array"], Era::Modern).await;
        speaks(&["--discover-as", "other"], Era::Modern).await;
    })
    .await;
}

#[tokio::test]
async fn request_before_negotiation_is_answered_only_if_legacy() {
    harmless(async {
        for (era, is_answered) in [("legacy", true), ("modern", false)] {
            let (tell, told) = std::sync::mpsc::channel();
            let handlers = Handlers::new().on_roots(move || {
                tell.send(()).unwrap();
                async { vec![Root::new("file:///x")] }
            });
            let config = peer(&["--era", era, "--request-first"]);
            let client = McpClient::builder(config).handlers(handlers).connect().await.unwrap();
            unharmed(&client).await;
            assert_eq!(told.try_recv().is_ok(), is_answered, "{era}");
            client.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn noise_on_stdout_before_handshake_is_skipped_up_to_a_limit() {
    harmless(async {
        speaks(&["--noise", "999"], Era::Modern).await;
        let noise = fails(peer(&["--noise", "2000"])).await;
        assert!(
            matches!(&noise, NegotiationError::Noise { sample } if sample == "starting up, step 0"),
            "{noise}"
        );
    })
    .await;
}

#[tokio::test]
async fn silence_after_the_probe_leads_to_initialize() {
    harmless(async {
        let config = peer(&["--silent", "1"]).start_timeout(Duration::from_millis(1500));
        let client = McpClient::connect(config).await.unwrap();
        assert_eq!((client.era(), client.negotiation().is_cacheable), (Era::Legacy, false));
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn server_that_exits_on_the_probe_is_restarted_once() {
    harmless(async {
        speaks(&["--dies-of", "server/discover"], Era::Legacy).await;
        let config = peer(&["--exit", "7", "--says", "no licence"]);
        match McpClient::connect(config).await {
            Err(Error::Connect { error: source, ended, .. }) => {
                assert_eq!(*source, NegotiationError::Exited);
                assert_eq!(ended.status.unwrap().code(), Some(7));
                assert_eq!(ended.stderr, "no licence");
            }
            other => panic!("{other:?}"),
        }
    })
    .await;
}

#[tokio::test]
async fn missing_program_is_a_start_error() {
    harmless(async {
        let error = McpClient::connect(ServerConfig::command("no-such-program")).await.unwrap_err();
        assert!(matches!(error, Error::Start(StartError::NotFound { .. })), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn failed_initialize_names_both_versions_or_both_errors() {
    harmless(async {
        let answer = r#""result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}"#;
        let odd = fails(peer(&["--era", "legacy", "--initialize", answer])).await;
        assert!(odd.to_string().contains("1999-01-01") && odd.to_string().contains("2025-11-25"), "{odd}");
        let both = fails(peer(&["--era", "legacy", "--initialize", &error(-32000)])).await;
        match both {
            NegotiationError::Handshake { probe: Some(probe), handshake: HandshakeFailure::Rejected(refused) } => {
                assert_eq!((i64::from(probe.code), i64::from(refused.code)), (-32601, -32000));
            }
            other => panic!("{other}"),
        }
    })
    .await;
}

#[tokio::test]
async fn silent_server_fails_at_the_start_timeout_with_its_stderr() {
    harmless(async {
        let config = peer(&["--silent", "9", "--says", "waiting for the database"]);
        let began = std::time::Instant::now();
        let error = McpClient::connect(config.start_timeout(Duration::from_millis(600))).await.unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        let Error::Connect { error: source, ended, .. } = &error else { panic!("{error:?}") };
        let silence = HandshakeFailure::Timeout;
        assert!(
            matches!(&**source, NegotiationError::Handshake { handshake, .. } if *handshake == silence),
            "{error:?}"
        );
        assert_eq!(ended.stderr, "waiting for the database");
        assert!(error.is_timeout() && error.blame() == Blame::Link, "{error:?}");
        assert!(error.to_string().contains("timed out"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn configured_era_is_enforced() {
    harmless(async {
        let not_modern = fails(peer(&["--era", "legacy"]).era(Mode::Modern)).await;
        assert_eq!(not_modern, NegotiationError::NotModern);
        let client = McpClient::connect(peer(&[]).era(Mode::Legacy)).await.unwrap();
        assert_eq!(client.era(), Era::Legacy);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn cancelled_connect_leaves_no_process() {
    harmless(async {
        let connecting = McpClient::connect(peer(&["--silent", "9", "--stubborn"]));
        assert!(tokio::time::timeout(Duration::from_millis(200), connecting).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn cached_negotiation_skips_the_probe_and_is_redone_when_wrong() {
    use mcp_client::NegotiationCache;
    harmless(async {
        let negotiation_cache = NegotiationCache::new();
        let config = peer(&["--era", "legacy"]);
        let connect = async |config: &ServerConfig<CommandTarget>| {
            McpClient::builder(config.clone()).negotiation_cache(&negotiation_cache).connect().await.unwrap()
        };
        let client = connect(&config).await;
        client.close().await;
        assert!(negotiation_cache.to_text().starts_with("legacy "), "{}", negotiation_cache.to_text());
        let client = connect(&config).await;
        unharmed(&client).await;
        let asked = client.call("requests", serde_json::json!({})).await.unwrap().text();
        assert_eq!(asked, "initialize tools/call tools/call", "no probe");
        client.close().await;
        // A server that became a modern one: the negotiation result is wrong, and the probe tells.
        let modern = peer(&["--era", "modern"]);
        let text = negotiation_cache.to_text();
        let wrong = NegotiationCache::new();
        let client = McpClient::builder(modern.clone()).negotiation_cache(&wrong).connect().await.unwrap();
        client.close().await;
        let digest = wrong.to_text().split(' ').next_back().unwrap().trim().to_owned();
        let until = text.split(' ').nth(1).unwrap();
        let wrong = NegotiationCache::from_text(&format!("legacy {until} {digest}")).unwrap();
        let client = McpClient::builder(modern).negotiation_cache(&wrong).connect().await.unwrap();
        assert_eq!(client.era(), Era::Modern);
        assert!(wrong.to_text().starts_with("modern "), "{}", wrong.to_text());
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn connect_timeout_includes_the_time_to_kill_the_server() {
    harmless(async {
        let config = peer(&["--silent", "99", "--stubborn"]).start_timeout(Duration::from_secs(3));
        let began = Instant::now();
        let error = McpClient::connect(config).await.unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{error:?}");
        assert!(began.elapsed() < Duration::from_millis(3100), "{:?}", began.elapsed());
    })
    .await;
}
