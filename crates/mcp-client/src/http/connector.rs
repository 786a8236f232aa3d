//! Opens the TCP connections to a URL: name resolution, network policy, proxies.

use std::error::Error as StdError;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tower_service::Service;

use super::network::{Network, Proxies, Resolver};
use super::policy::NetworkPolicy;
use super::tcp::TcpConnection;

/// The timeout of a TCP connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The idle time after which TCP keep-alive probes are sent.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// The number of unanswered keep-alive probes after which a connection is closed.
const KEEPALIVE_RETRIES: u32 = 3;
/// The time between two keep-alive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

type BoxError = Box<dyn StdError + Send + Sync>;

/// Opens a TCP connection, directly or through a proxy. The caller adds TLS.
#[derive(Clone)]
pub(super) struct Connector {
    direct: HttpConnector<CheckedResolver>,
    /// Does not check the policy, because the operator has chosen the proxy.
    to_proxy: HttpConnector<CheckedResolver>,
    proxies: ProxyRules,
}

/// The proxy for each URL.
#[derive(Clone)]
pub(super) struct ProxyRules(Option<std::sync::Arc<Matcher>>);

impl ProxyRules {
    pub(super) fn of(network: &Network) -> Result<Self, String> {
        let matcher = match &network.proxies {
            Proxies::None => return Ok(Self(None)),
            // A proxy resolves names itself, so the policy could not check the addresses.
            Proxies::Environment if network.policy.is_public() => return Ok(Self(None)),
            Proxies::Environment => Matcher::from_env(),
            Proxies::Url(url) => {
                let parsed = url::Url::parse(url).map_err(|_| "the proxy is not a valid URL".to_owned())?;
                if !matches!(parsed.scheme(), "http" | "socks5" | "socks5h") {
                    return Err(format!(
                        "the proxy scheme `{}` is not supported; use http or socks5",
                        parsed.scheme()
                    ));
                }
                Matcher::builder().all(url.clone()).build()
            }
        };
        Ok(Self(Some(std::sync::Arc::new(matcher))))
    }

    /// Returns the proxy for a URL. Connections to this machine never use a proxy.
    fn to(&self, uri: &Uri) -> Option<Intercept> {
        if is_loopback(uri) {
            return None;
        }
        self.0.as_ref()?.intercept(uri)
    }

    /// Returns the `Proxy-Authorization` header that a proxy for plain HTTP needs in every request.
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
    pub(super) fn new(network: &Network, proxies: ProxyRules) -> Self {
        let connector = |policy| {
            let resolver = CheckedResolver { policy, resolver: network.resolver.clone() };
            let mut connector = HttpConnector::new_with_resolver(resolver);
            connector.enforce_http(false);
            connector.set_nodelay(true);
            connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
            connector.set_keepalive(Some(KEEPALIVE_IDLE));
            connector.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
            connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
            connector
        };
        Self { direct: connector(Some(network.policy.clone())), to_proxy: connector(None), proxies }
    }
}

impl Service<Uri> for Connector {
    type Response = TcpConnection;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<TcpConnection, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.direct.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Some(proxy) = self.proxies.to(&uri) else {
            let connecting = self.direct.call(uri.clone());
            return Box::pin(async move { Ok(TcpConnection::new(connecting.await?, &uri)) });
        };
        let to_proxy = self.to_proxy.clone();
        Box::pin(through(proxy, to_proxy, uri))
    }
}

async fn through(
    proxy: Intercept,
    mut to_proxy: HttpConnector<CheckedResolver>,
    uri: Uri,
) -> Result<TcpConnection, BoxError> {
    let address = proxy.uri().clone();
    match address.scheme_str() {
        Some("http") if uri.scheme_str() == Some("https") => {
            let mut tunnel = Tunnel::new(address, to_proxy);
            if let Some(authorization) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(authorization.clone());
            }
            Ok(TcpConnection::new(tunnel.call(uri.clone()).await?, &uri))
        }
        Some("http") => Ok(TcpConnection::to_proxy(to_proxy.call(address).await?, &uri)),
        Some("socks5" | "socks5h") => {
            let mut socks = SocksV5::new(address, to_proxy).local_dns(false);
            if let Some((user, password)) = proxy.raw_auth() {
                socks = socks.with_auth(user.to_owned(), password.to_owned());
            }
            Ok(TcpConnection::new(socks.call(uri.clone()).await?, &uri))
        }
        scheme => {
            let scheme = scheme.unwrap_or_default();
            Err(format!("the proxy scheme `{scheme}` is not supported; use http or socks5").into())
        }
    }
}

/// A resolver that checks every address against the policy.
#[derive(Clone)]
struct CheckedResolver {
    policy: Option<NetworkPolicy>,
    resolver: Option<Resolver>,
}

impl Service<Name> for CheckedResolver {
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
            // One denied address denies the host, because any of the addresses may be connected to.
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
