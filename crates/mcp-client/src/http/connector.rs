//! From a URL to a stream of bytes: resolving, judging, proxies.

use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::network::{Network, Proxies, Resolver};
use super::policy::NetworkPolicy;

/// How long it may take to reach a host.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection may be silent before the other side is asked whether it lives.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How often it is asked, and in which distance.
const KEEPALIVE_RETRIES: u32 = 3;
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

type BoxError = Box<dyn StdError + Send + Sync>;

/// Connects directly or through a proxy; TLS is put on top of it.
#[derive(Clone)]
pub(super) struct Connector {
    direct: HttpConnector<Judging>,
    /// What the operator named is not judged.
    to_proxy: HttpConnector<Judging>,
    proxies: Route,
}

/// Which proxy leads where.
#[derive(Clone)]
pub(super) struct Route(Option<std::sync::Arc<Matcher>>);

impl Route {
    pub(super) fn of(network: &Network) -> Result<Self, String> {
        let matcher = match &network.proxies {
            Proxies::None => return Ok(Self(None)),
            // A proxy resolves names itself, where nobody judges.
            Proxies::Environment if network.policy.is_public() => return Ok(Self(None)),
            Proxies::Environment => Matcher::from_env(),
            Proxies::Url(url) => {
                let parsed = url::Url::parse(url).map_err(|_| "the proxy is not a valid URL".to_owned())?;
                if !matches!(parsed.scheme(), "http" | "socks5" | "socks5h") {
                    return Err(format!("a proxy with `{}` is not supported", parsed.scheme()));
                }
                Matcher::builder().all(url.clone()).build()
            }
        };
        Ok(Self(Some(std::sync::Arc::new(matcher))))
    }

    /// The proxy that leads to a URL. This machine is always reached directly.
    fn to(&self, uri: &Uri) -> Option<Intercept> {
        if is_loopback(uri) {
            return None;
        }
        self.0.as_ref()?.intercept(uri)
    }

    /// What a proxy for plain HTTP wants to see in every request.
    pub(super) fn authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        if uri.scheme_str() == Some("https") {
            return None;
        }
        let mut value = self.to(uri).filter(is_http)?.basic_auth().cloned()?;
        value.set_sensitive(true);
        Some(value)
    }
}

fn is_http(proxy: &Intercept) -> bool {
    proxy.uri().scheme_str() == Some("http")
}

fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl Connector {
    pub(super) fn new(network: &Network, proxies: Route) -> Self {
        let connector = |policy| {
            let judging = Judging { policy, resolver: network.resolver.clone() };
            let mut connector = HttpConnector::new_with_resolver(judging);
            connector.enforce_http(false);
            connector.set_nodelay(true);
            connector.set_connect_timeout(Some(CONNECT));
            connector.set_keepalive(Some(KEEPALIVE));
            connector.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
            connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
            connector
        };
        Self { direct: connector(Some(network.policy.clone())), to_proxy: connector(None), proxies }
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.direct.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Some(proxy) = self.proxies.to(&uri) else {
            let connecting = self.direct.call(uri);
            return Box::pin(async { Ok(Stream { io: connecting.await?, is_proxied: false }) });
        };
        let to_proxy = self.to_proxy.clone();
        Box::pin(through(proxy, to_proxy, uri))
    }
}

async fn through(
    proxy: Intercept,
    mut to_proxy: HttpConnector<Judging>,
    uri: Uri,
) -> Result<Stream, BoxError> {
    let address = proxy.uri().clone();
    match address.scheme_str() {
        Some("http") if uri.scheme_str() == Some("https") => {
            let mut tunnel = Tunnel::new(address, to_proxy);
            if let Some(authorization) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(authorization.clone());
            }
            Ok(Stream { io: tunnel.call(uri).await?, is_proxied: false })
        }
        Some("http") => Ok(Stream { io: to_proxy.call(address).await?, is_proxied: true }),
        Some("socks5" | "socks5h") => {
            let mut socks = SocksV5::new(address, to_proxy).local_dns(false);
            if let Some((user, password)) = proxy.raw_auth() {
                socks = socks.with_auth(user.to_owned(), password.to_owned());
            }
            Ok(Stream { io: socks.call(uri).await?, is_proxied: false })
        }
        scheme => Err(format!("a proxy with `{}` is not supported", scheme.unwrap_or_default()).into()),
    }
}

/// A resolver that gives nothing but addresses that may be connected to.
#[derive(Clone)]
struct Judging {
    policy: Option<NetworkPolicy>,
    resolver: Option<Resolver>,
}

impl Service<Name> for Judging {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { policy, resolver } = self.clone();
        Box::pin(async move {
            let name = name.as_str();
            let addresses = match resolver {
                Some(resolver) => {
                    let addresses = resolver(name.to_owned()).await?;
                    addresses.into_iter().map(|address| SocketAddr::new(address, 0)).collect()
                }
                None => tokio::net::lookup_host((name, 0)).await?.collect::<Vec<_>>(),
            };
            // One that may not be used spoils all: which of them is taken is chance.
            if let Some(policy) = policy {
                let host = name.trim_end_matches('.').to_ascii_lowercase();
                for address in &addresses {
                    policy.check_address(&host, address.ip())?;
                }
            }
            Ok(addresses.into_iter())
        })
    }
}

/// A connection that knows whether the proxy at its end wants whole URLs.
pub(super) struct Stream {
    io: TokioIo<TcpStream>,
    is_proxied: bool,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.io.connected().proxy(self.is_proxied)
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, pieces)
    }
}
