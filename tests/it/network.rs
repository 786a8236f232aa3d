//! Our client and our server over TLS, both versions of HTTP, and proxies: as a company would have it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hyper::body::{Bytes, Incoming};
use hyper::service::Service as _;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcp_client::http::{HttpBody, HttpClient, HttpError, Network, ResponseFuture};
use mcp_client::protocol::Era;
use mcp_client::{Error, McpClient, Sent, ServerConfig};
use mcp_server::http::{Access, HttpOptions};
use mcp_server::{McpServer, tool};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::{BOTH_ERAS, nothing_left};

/// A certificate authority of our own.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
struct Certified {
    chain: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn certify(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> Certified {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let chain = params.signed_by(&key, &self.issuer).unwrap().pem();
        Certified { chain, key: key.serialize_pem() }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        roots
    }
}

/// Our server behind TLS, for the name `mcp.test`.
struct Secure {
    port: u16,
    /// The versions of HTTP that came.
    versions: Arc<Mutex<Vec<http::Version>>>,
    _serving: JoinSet<()>,
}

impl Secure {
    async fn serve(authority: &Authority, protocols: &[&str], wants_client: bool) -> Self {
        let Certified { chain, key } = authority.certify("mcp.test", ExtendedKeyUsagePurpose::ServerAuth);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if wants_client {
            let roots = Arc::new(authority.roots());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let chain = vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let versions = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&versions);
        let service = server().into_http_service(options()).unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, service, seen) = (acceptor.clone(), service.clone(), Arc::clone(&seen));
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = hyper_util::service::TowerToHyperService::new(service);
                    let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
                        seen.lock().unwrap().push(request.version());
                        service.call(request)
                    });
                    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { port, versions, _serving: serving }
    }

    fn url(&self) -> String {
        format!("https://mcp.test:{}/mcp", self.port)
    }
}

fn server() -> McpServer {
    McpServer::named("ours", "1").tool(tool("echo", |arguments: Echo| async move { arguments.text }))
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

fn options() -> HttpOptions {
    HttpOptions::default().access(Access::loopback().host("mcp.test")).beyond_loopback_without_authorization()
}

/// A network in which the name of the server leads here.
fn network(authority: &Authority) -> Network {
    Network::new()
        .no_proxy()
        .root_certificates(authority.pem.as_str())
        .resolver(|_| async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) })
}

async fn echo(client: &McpClient) -> String {
    client.call("echo", json!({"text": "hi"})).await.unwrap().text()
}

#[tokio::test]
async fn private_root_certificate_works_with_http1_and_http2() {
    nothing_left(async {
        let authority = Authority::new();
        for (protocols, version) in [
            (&["h2", "http/1.1"][..], http::Version::HTTP_2),
            (&["http/1.1"][..], http::Version::HTTP_11),
            (&[][..], http::Version::HTTP_11),
        ] {
            let secure = Secure::serve(&authority, protocols, false).await;
            for revision in BOTH_ERAS {
                let builder =
                    McpClient::builder(ServerConfig::url(secure.url())).versions([revision.clone()]);
                let client = builder.network(&network(&authority)).connect().await.unwrap();
                assert_eq!(client.version(), &revision);
                assert_eq!(echo(&client).await, "hi");
                client.close().await;
            }
            let seen = secure.versions.lock().unwrap().clone();
            assert!(seen.len() >= 4 && seen.iter().all(|seen| *seen == version), "{seen:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn untrusted_certificate_prevents_any_request() {
    nothing_left(async {
        let (authority, stranger) = (Authority::new(), Authority::new());
        let secure = Secure::serve(&authority, &["http/1.1"], false).await;
        let wrong_name = format!("https://other.test:{}/mcp", secure.port);
        for (url, network) in [
            (secure.url(), network(&stranger)),
            (
                secure.url(),
                Network::new().no_proxy().resolver(|_| async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) }),
            ),
            (wrong_name, network(&authority)),
        ] {
            let config = ServerConfig::url(url).bearer_token("hush-hush");
            let error = McpClient::builder(config).network(&network).connect().await.unwrap_err();
            let text = error.to_string();
            assert!(text.contains("certificate") && !text.contains("hush"), "{text}");
            assert!(matches!(error, Error::Connect { .. }), "{error:?}");
        }
        assert!(secure.versions.lock().unwrap().is_empty(), "nothing was asked");
        // What was given as certificates is none.
        let network = Network::new().root_certificates("nonsense");
        let error = McpClient::builder(ServerConfig::url(secure.url()))
            .network(&network)
            .connect()
            .await
            .unwrap_err();
        assert!(matches!(error, Error::InvalidConfig { .. }), "{error}");
    })
    .await;
}

#[tokio::test]
async fn client_certificate_and_custom_tls_config_are_used() {
    nothing_left(async {
        let authority = Authority::new();
        let secure = Secure::serve(&authority, &["h2", "http/1.1"], true).await;
        let ours = authority.certify("client", ExtendedKeyUsagePurpose::ClientAuth);
        let with = network(&authority).client_certificate(ours.chain.as_str(), ours.key.as_str());
        let client =
            McpClient::builder(ServerConfig::url(secure.url())).network(&with).connect().await.unwrap();
        assert_eq!(echo(&client).await, "hi");
        client.close().await;
        assert!(
            McpClient::builder(ServerConfig::url(secure.url()))
                .network(&network(&authority))
                .connect()
                .await
                .is_err()
        );
        assert!(!format!("{with:?}").contains("PRIVATE"));

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = vec![CertificateDer::from_pem_slice(ours.chain.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(ours.key.as_bytes()).unwrap();
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(authority.roots())
            .with_client_auth_cert(chain, key)
            .unwrap();
        let ready = Network::new()
            .no_proxy()
            .tls(config)
            .resolver(|_| async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) });
        let client =
            McpClient::builder(ServerConfig::url(secure.url())).network(&ready).connect().await.unwrap();
        assert_eq!(echo(&client).await, "hi");
        client.close().await;
    })
    .await;
}

/// First lines, and what said who asks.
type Heads = Arc<Mutex<Vec<(String, Option<String>)>>>;

/// A forward proxy: `CONNECT`, and whole URLs for plain HTTP. Every name leads to this machine.
struct Proxy {
    address: SocketAddr,
    seen: Heads,
    _serving: JoinSet<()>,
}

impl Proxy {
    async fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Heads::default();
        let all = Arc::clone(&seen);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(relay(stream, Arc::clone(&all)));
            }
        });
        Self { address, seen, _serving: serving }
    }

    fn seen(&self) -> Vec<(String, Option<String>)> {
        self.seen.lock().unwrap().clone()
    }
}

async fn relay(mut stream: TcpStream, all: Heads) {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let first = head.lines().next().unwrap().to_owned();
    let authorization = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(name, _)| name.eq_ignore_ascii_case("proxy-authorization"))
        .map(|(_, value)| value.to_owned());
    all.lock().unwrap().push((first.clone(), authorization));
    let target = first.split(' ').nth(1).unwrap();
    let port: u16 = target.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap();
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    if first.starts_with("CONNECT ") {
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
    } else {
        // The first request of the connection; the rest goes on as it is, which our server puts up with.
        server.write_all(&bytes).await.unwrap();
    }
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
}

#[tokio::test]
async fn https_uses_a_connect_tunnel_with_proxy_credentials() {
    nothing_left(async {
        let (authority, proxy) = (Authority::new(), Proxy::serve().await);
        let secure = Secure::serve(&authority, &["h2", "http/1.1"], false).await;
        let network = Network::new()
            .root_certificates(authority.pem.as_str())
            .proxy(format!("http://me:pass%20word@{}", proxy.address));
        assert!(!format!("{network:?}").contains("pass"));
        for revision in BOTH_ERAS {
            let config = ServerConfig::url(secure.url()).bearer_token("hush-hush");
            let builder = McpClient::builder(config).versions([revision]).network(&network);
            let client = builder.connect().await.unwrap();
            assert_eq!(echo(&client).await, "hi");
            client.close().await;
        }
        let expected = format!("CONNECT mcp.test:{} HTTP/1.1", secure.port);
        for (first, authorization) in proxy.seen() {
            assert_eq!(first, expected);
            assert_eq!(authorization.as_deref(), Some("Basic bWU6cGFzcyB3b3Jk"));
        }
        assert!(!proxy.seen().is_empty());
    })
    .await;
}

/// Our server without TLS.
async fn plain() -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut serving = JoinSet::new();
    let service = server().into_http_service(options()).unwrap();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = hyper_util::service::TowerToHyperService::new(service.clone());
            connections.spawn(async move {
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (port, serving)
}

#[tokio::test]
async fn plain_http_uses_the_proxy_except_for_loopback() {
    nothing_left(async {
        let proxy = Proxy::serve().await;
        let (port, _serving) = plain().await;
        let network = Network::new().proxy(format!("http://me:secret@{}", proxy.address));
        for revision in BOTH_ERAS {
            let config = ServerConfig::url(format!("http://mcp.test:{port}/mcp"));
            let builder = McpClient::builder(config).versions([revision]).network(&network);
            let client = builder.connect().await.unwrap();
            assert_eq!(echo(&client).await, "hi");
            client.close().await;
        }
        let seen = proxy.seen();
        assert!(!seen.is_empty());
        for (first, authorization) in &seen {
            assert!(first.contains(&format!("http://mcp.test:{port}/mcp HTTP/1.1")), "{first}");
            assert_eq!(authorization.as_deref(), Some("Basic bWU6c2VjcmV0"));
        }
        for host in ["127.0.0.1", "localhost"] {
            let config = ServerConfig::url(format!("http://{host}:{port}/mcp"));
            let client = McpClient::builder(config).network(&network).connect().await.unwrap();
            assert_eq!(echo(&client).await, "hi");
            client.close().await;
        }
        assert_eq!(proxy.seen().len(), seen.len(), "this machine is reached directly");
    })
    .await;
}

#[tokio::test]
async fn proxy_and_certificate_variables_are_honoured() {
    nothing_left(async {
        let (authority, proxy) = (Authority::new(), Proxy::serve().await);
        let secure = Secure::serve(&authority, &["h2", "http/1.1"], false).await;
        let folder = std::env::temp_dir().join(format!("mcp-tests-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let roots = folder.join("roots.pem");
        std::fs::write(&roots, &authority.pem).unwrap();
        let call = |no_proxy: &'static str| {
            let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_servers"));
            command.args(["call", &secure.url()]).env("SSL_CERT_FILE", &roots).kill_on_drop(true);
            command.env("HTTPS_PROXY", format!("http://{}", proxy.address)).env("NO_PROXY", no_proxy);
            command.output()
        };
        let output = call("").await.unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "hi\n");
        let through = proxy.seen().len();
        assert!(through > 0);
        // Without the proxy nobody knows the name.
        let output = call(".test").await.unwrap();
        assert!(!output.status.success());
        assert_eq!(proxy.seen().len(), through);
        std::fs::remove_dir_all(&folder).unwrap();
    })
    .await;
}

/// A client of the host's own.
struct Theirs {
    client: hyper_util::client::legacy::Client<HttpConnector, http_body_util::Full<Bytes>>,
    requests: Arc<AtomicUsize>,
}

impl HttpClient for Theirs {
    fn send(&self, request: http::Request<Bytes>) -> ResponseFuture<'_> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let answer = self.client.request(request.map(http_body_util::Full::new)).await;
            let answer = answer.map_err(|error| HttpError::maybe_sent(error.to_string()))?;
            Ok(answer.map(|body| -> HttpBody {
                Box::pin(http_body_util::BodyExt::map_err(body, |error| error.into()))
            }))
        })
    }
}

#[tokio::test]
async fn a_client_of_the_hosts_own_is_asked_instead_of_ours() {
    nothing_left(async {
        let (port, _serving) = plain().await;
        let requests = Arc::new(AtomicUsize::new(0));
        let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build_http();
        let network = Network::new().client(Theirs { client, requests: Arc::clone(&requests) });
        for revision in BOTH_ERAS {
            let config = ServerConfig::url(format!("http://127.0.0.1:{port}/mcp"));
            let client =
                McpClient::builder(config).versions([revision]).network(&network).connect().await.unwrap();
            assert_eq!(echo(&client).await, "hi");
            client.close().await;
        }
        assert!(requests.load(Ordering::SeqCst) >= 6);
        let nobody = ServerConfig::url("http://127.0.0.1:1/");
        let error = McpClient::builder(nobody).network(&network).connect().await.unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{error}");
        assert_eq!(
            (HttpError::maybe_sent("x").sent(), HttpError::unsent("x").sent()),
            (Sent::Maybe, Sent::No)
        );
    })
    .await;
}

/// Passes bytes on to a port, until it falls asleep: then what is open stays open, and nothing is passed on.
async fn sleeper(to: u16) -> (u16, watch::Sender<()>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (asleep, sleeps) = watch::channel(());
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut sleeps = sleeps.clone();
            sleeps.mark_unchanged();
            connections.spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut stream, &mut server) => return,
                    _ = sleeps.changed() => {}
                }
                std::future::pending::<()>().await;
            });
        }
    });
    (port, asleep, serving)
}

#[tokio::test]
async fn stalled_http2_connection_fails_one_call_only() {
    nothing_left(async {
        let authority = Authority::new();
        let secure = Secure::serve(&authority, &["h2"], false).await;
        let (port, asleep, _relaying) = sleeper(secure.port).await;
        for revision in BOTH_ERAS {
            let config = ServerConfig::url(format!("https://mcp.test:{port}/mcp"));
            let builder = McpClient::builder(config).versions([revision]).network(&network(&authority));
            let client = builder.connect().await.unwrap();
            assert_eq!(echo(&client).await, "hi");
            asleep.send_replace(());
            let late = std::time::Duration::from_millis(1200);
            let first = client.call("echo", json!({"text": "hi"})).timeout(late).await;
            assert!(matches!(first, Err(Error::TimedOut { .. })), "{first:?}");
            let second = client.call("echo", json!({"text": "hi"})).timeout(late * 3).await;
            assert_eq!(second.unwrap().text(), "hi");
            client.close().await;
        }
    })
    .await;
}

/// A SOCKS5 proxy with a name and a password. Every name leads to this machine.
async fn socks(names: Arc<Mutex<Vec<String>>>) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let names = Arc::clone(&names);
            connections.spawn(async move {
                let mut read = async |count: usize| {
                    let mut bytes = vec![0; count];
                    stream.read_exact(&mut bytes).await.unwrap();
                    bytes
                };
                let methods = read(2).await[1];
                assert!(read(methods.into()).await.contains(&2), "a password is offered");
                stream.write_all(&[5, 2]).await.unwrap();
                let mut read = async |count: usize| {
                    let mut bytes = vec![0; count];
                    stream.read_exact(&mut bytes).await.unwrap();
                    bytes
                };
                let length = read(2).await[1];
                assert_eq!(read(length.into()).await, b"me");
                let length = read(1).await[0];
                assert_eq!(read(length.into()).await, b"secret");
                stream.write_all(&[1, 0]).await.unwrap();
                let mut read = async |count: usize| {
                    let mut bytes = vec![0; count];
                    stream.read_exact(&mut bytes).await.unwrap();
                    bytes
                };
                assert_eq!(read(4).await, [5, 1, 0, 3], "a connection to a name");
                let length = read(1).await[0];
                let name = String::from_utf8(read(length.into()).await).unwrap();
                let port = read(2).await;
                names.lock().unwrap().push(name);
                stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
                let port = u16::from_be_bytes([port[0], port[1]]);
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
            });
        }
    });
    (address, serving)
}

#[tokio::test]
async fn socks_proxy_resolves_names_for_http_and_https() {
    nothing_left(async {
        let authority = Authority::new();
        let secure = Secure::serve(&authority, &["h2", "http/1.1"], false).await;
        let (port, _serving) = plain().await;
        let names = Arc::default();
        let (address, _socks) = socks(Arc::clone(&names)).await;
        let network = Network::new()
            .root_certificates(authority.pem.as_str())
            .proxy(format!("socks5h://me:secret@{address}"));
        for url in [secure.url(), format!("http://mcp.test:{port}/mcp")] {
            let client =
                McpClient::builder(ServerConfig::url(url)).network(&network).connect().await.unwrap();
            assert_eq!(echo(&client).await, "hi");
            client.close().await;
        }
        let names = names.lock().unwrap().clone();
        assert!(names.len() >= 2 && names.iter().all(|name| name == "mcp.test"), "{names:?}");
    })
    .await;
}

#[tokio::test]
async fn a_server_that_has_both_eras_is_modern_over_tls_too() {
    nothing_left(async {
        let authority = Authority::new();
        let secure = Secure::serve(&authority, &["h2"], false).await;
        let client = McpClient::builder(ServerConfig::url(secure.url()))
            .network(&network(&authority))
            .connect()
            .await
            .unwrap();
        assert_eq!(client.era(), Era::Modern);
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn server_withstands_every_fault_of_the_misbehaving_client() {
    nothing_left(async {
        let (port, _serving) = plain().await;
        let url = format!("http://127.0.0.1:{port}/mcp");
        for fault in mcp_client::test_peer::WEB_FAULTS {
            let words = ["web-client", fault, &url].map(str::to_owned);
            let ran = tokio::task::spawn_blocking(move || mcp_client::test_peer::main(words.into_iter()))
                .await
                .unwrap();
            assert_eq!(format!("{ran:?}"), format!("{:?}", std::process::ExitCode::SUCCESS), "{fault}");
        }
    })
    .await;
}
