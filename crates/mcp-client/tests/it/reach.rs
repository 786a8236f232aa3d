//! What is between a client and a server: names, addresses, and connections that are dead.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mcp_client::http::{Network, NetworkPolicy};
use mcp_client::{Error, McpClient, Sent, ServerConfig};
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::harmless;
use crate::web::{Say, Seen, Web, accept_all, against, connect, echo, legacy, modern};

#[tokio::test]
async fn host_resolving_to_a_private_address_is_denied_before_connect() {
    against(modern, |web| async move {
        let port = web.url.rsplit(':').next().unwrap().to_owned();
        // Public at first, and this machine the next time: rebinding.
        let lookups = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&lookups);
        let network = Network::new().no_proxy().policy(NetworkPolicy::public()).resolver(move |name| {
            assert_eq!(name, "rebind.example");
            let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
            let addresses = if first { vec!["8.8.8.8", "127.0.0.1"] } else { vec!["127.0.0.1"] };
            async move { Ok(addresses.iter().map(|address| address.parse().unwrap()).collect()) }
        });
        for _ in 0..2 {
            let config = ServerConfig::url(format!("https://rebind.example:{port}"));
            let error = McpClient::builder(config).network(&network).connect().await.unwrap_err();
            assert!(matches!(&error, Error::Denied { host, .. } if host == "rebind.example"), "{error:?}");
        }
        let strict = network.clone().policy(NetworkPolicy::public().without_loopback());
        let here = [format!("https://127.0.0.1:{port}"), format!("https://[::ffff:127.0.0.1]:{port}")];
        let others = ["https://10.0.0.1/", "https://2852039166/", "https://[fd00::1]/"].map(str::to_owned);
        for url in here.into_iter().chain(others) {
            let connecting = McpClient::builder(ServerConfig::url(&url)).network(&strict).connect();
            let outcome = tokio::time::timeout(Duration::from_secs(2), connecting).await.unwrap();
            assert!(matches!(outcome, Err(Error::Denied { .. })), "{url} {outcome:?}");
        }
        assert_eq!((web.connections(), lookups.load(Ordering::SeqCst)), (0, 2));
    })
    .await;
}

#[tokio::test]
async fn client_connects_to_a_url_given_as_a_string() {
    against(modern, |web| async move {
        let client = McpClient::connect(web.url.as_str()).await.unwrap();
        assert_eq!(echo(&client, "x").await.unwrap(), "x");
        client.close().await;
        let client = McpClient::builder(web.url.clone()).name("test", "1").connect().await.unwrap();
        client.close().await;
    })
    .await;
    let connect = McpClient::builder("npx -y some-server").start_timeout(Duration::from_secs(1));
    let error = connect.connect().await.unwrap_err();
    assert!(matches!(&error, Error::InvalidConfig { .. }), "{error:?}");
    assert!(error.to_string().contains("to start a program, use ServerConfig::command"), "{error}");
}

#[tokio::test]
async fn stale_pooled_connections_lose_and_repeat_no_call() {
    // The server closes every connection after its answer, without saying so.
    let script = |seen: &Seen| match modern(seen) {
        Say::Whole(bytes) => Say::raw(bytes),
        say => say,
    };
    against(script, |web| async move {
        let client = connect(&web).await;
        for number in 0..20 {
            let text = number.to_string();
            assert_eq!(echo(&client, &text).await.unwrap(), text);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(web.count("tools/call"), 20, "none was made twice");
        client.close().await;
    })
    .await;
}

/// The server runs on a thread of its own, and the thread of the client is blocked while the server closes the connection:
/// the runtime of the client has no chance to notice it before the next call.
#[tokio::test]
async fn close_that_the_runtime_has_not_noticed_loses_no_call() {
    let (url, started) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let web = Web::serve(|seen| match modern(seen) {
                Say::Whole(bytes) => Say::raw(bytes),
                say => say,
            })
            .await;
            url.send((web.url.clone(), web.open())).unwrap();
            let _ = stopped.await;
            assert_eq!(web.count("tools/call"), 20, "none was made twice");
            web.end().await;
        });
    });
    let (url, open) = started.recv().unwrap();
    let client = McpClient::connect(ServerConfig::url(url)).await.unwrap();
    for number in 0..20 {
        // The server closes the connection, while the runtime of the client cannot notice it.
        while open.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let text = number.to_string();
        assert_eq!(echo(&client, &text).await.unwrap(), text);
    }
    client.close().await;
    stop.send(()).unwrap();
    server.join().unwrap();
}

#[tokio::test]
async fn request_without_a_connection_is_reported_as_not_sent() {
    harmless(async {
        let web = Web::serve(modern).await;
        let client = connect(&web).await;
        assert_eq!(echo(&client, "x").await.unwrap(), "x");
        web.end().await;
        let error = echo(&client, "x").await.unwrap_err();
        assert!(matches!(error, Error::Lost { sent: Sent::No, .. }) && error.is_retry_safe(), "{error:?}");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn dns_failure_is_retry_safe_and_reported_with_its_cause() {
    harmless(async {
        let network =
            Network::new().no_proxy().resolver(|_| async { Err(std::io::Error::other("no such name")) });
        let config = ServerConfig::url("https://nobody.example/");
        let error = McpClient::builder(config).network(&network).connect().await.unwrap_err();
        assert!(error.is_retry_safe() && error.to_string().contains("no such name"), "{error}");
    })
    .await;
}

/// A listener whose queue is full: whoever comes is not even refused.
async fn black_hole(address: &str, port: u16) -> Option<(TcpListener, Vec<TcpStream>)> {
    let address: IpAddr = address.parse().unwrap();
    let socket = if address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }.ok()?;
    socket.bind((address, port).into()).ok()?;
    let hole = socket.listen(1).unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) =
        tokio::time::timeout(Duration::from_millis(100), TcpStream::connect((address, port))).await
    {
        queued.push(stream.unwrap());
    }
    Some((hole, queued))
}

#[tokio::test]
async fn unresponsive_address_falls_back_to_the_next_one() {
    // Of the other family at once, of the same one after half of the time.
    for (hole, patience) in [("::1", Duration::from_secs(2)), ("127.0.0.2", Duration::from_secs(8))] {
        against(modern, |web| async move {
            let port: u16 = web.url.rsplit(':').next().unwrap().trim_end_matches("/mcp").parse().unwrap();
            let Some(_hole) = black_hole(hole, port).await else {
                assert!(!std::path::Path::new("/proc/net/if_inet6").exists(), "{hole} cannot be listened to");
                return eprintln!("this machine has no {hole}");
            };
            let network = Network::new().no_proxy().resolver(move |_| async move {
                Ok(vec![hole.parse().unwrap(), "127.0.0.1".parse().unwrap()])
            });
            let began = Instant::now();
            let config = ServerConfig::url(format!("http://two.example:{port}/mcp"));
            let client = McpClient::builder(config).network(&network).connect().await.unwrap();
            assert_eq!(echo(&client, "through").await.unwrap(), "through");
            assert!(began.elapsed() < patience, "{hole} {:?}", began.elapsed());
            client.close().await;
        })
        .await;
    }
}

/// Passes bytes on to a server, until it falls asleep: then what is open stays open, and nothing is passed on.
struct Relay {
    url: String,
    asleep: watch::Sender<u32>,
    _serving: JoinSet<()>,
}

impl Relay {
    async fn to(web: &Web) -> Self {
        let target = web.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (asleep, sleeps) = watch::channel(0);
        let serving = accept_all(listener, move |mut stream| {
            let (target, mut sleeps) = (target.clone(), sleeps.clone());
            sleeps.mark_unchanged();
            async move {
                let mut server = TcpStream::connect(target).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut stream, &mut server) => return,
                    _ = sleeps.changed() => {}
                }
                std::future::pending::<()>().await;
            }
        });
        Self { url, asleep, _serving: serving }
    }

    /// Everything that is open is dead from here on, and nobody is told.
    fn sleep(&self) {
        self.asleep.send_modify(|count| *count += 1);
    }
}

#[tokio::test]
async fn first_call_after_sleep_times_out_and_the_next_one_works() {
    let with_stream = |seen: &Seen| match seen.method() {
        "GET" => Say::stream([crate::web::Piece::UntilGone]),
        _ => legacy(seen, "s"),
    };
    for is_modern in [true, false] {
        let script = move |seen: &Seen| if is_modern { modern(seen) } else { with_stream(seen) };
        harmless(async {
            let web = Web::serve(script).await;
            let relay = Relay::to(&web).await;
            let client = McpClient::connect(ServerConfig::url(&relay.url)).await.unwrap();
            assert_eq!(echo(&client, "awake").await.unwrap(), "awake");
            relay.sleep();
            let began = Instant::now();
            let late = Duration::from_millis(700);
            let outcome = client.call("echo", json!({"text": "x"})).timeout(late).await;
            assert!(matches!(outcome, Err(Error::TimedOut { .. })), "{outcome:?}");
            assert!(began.elapsed() < late * 2, "{:?}", began.elapsed());
            assert_eq!(echo(&client, "again").await.unwrap(), "again");
            let began = Instant::now();
            client.close().await;
            assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
            drop(relay);
            web.is_left().await;
            web.end().await;
        })
        .await;
    }
}
