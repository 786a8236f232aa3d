//! How a host reaches the network: whom it trusts, which proxies it uses, where it may go.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::policy::NetworkPolicy;
use super::request::HttpError;

/// How servers behind a URL are reached. Made once, and given to every connection.
///
/// Without anything said, the certificates of the platform are trusted, `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and
/// `NO_PROXY` are honoured except for this machine and under [`NetworkPolicy::public`], and a URL is allowed wherever it leads.
///
/// ```
/// use mcp_client::http::{Network, NetworkPolicy};
///
/// let network = Network::new().no_proxy().policy(NetworkPolicy::public());
/// let connect = mcp_client::McpClient::builder(mcp_client::ServerConfig::url("https://mcp.example.com/mcp")).network(&network);
/// ```
#[derive(Clone, Default)]
pub struct Network {
    roots: Vec<Vec<u8>>,
    identity: Option<Identity>,
    tls: Option<Arc<ClientConfig>>,
    pub(super) proxies: Proxies,
    pub(super) policy: NetworkPolicy,
    pub(super) resolver: Option<Resolver>,
    pub(super) client: Option<Arc<dyn HttpClient>>,
    /// Tells apart who brings something of their own of which nothing is known.
    unknown: Option<u64>,
    /// Made when it is first needed.
    made: Arc<OnceLock<Arc<ClientConfig>>>,
}

/// A certificate of our own and its key, as PEM.
#[derive(Clone)]
struct Identity {
    chain: Vec<u8>,
    key: Vec<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Proxies {
    /// What the variables of the environment say.
    #[default]
    Environment,
    None,
    Url(String),
}

type Resolving = Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>>;

/// Finds the addresses of a name.
pub(super) type Resolver = Arc<dyn Fn(String) -> Resolving + Send + Sync>;

/// What a [`HttpClient`] gives.
pub type Answering<'a> =
    Pin<Box<dyn Future<Output = Result<http::Response<HttpBody>, HttpError>> + Send + 'a>>;

/// A body that comes piece by piece.
pub type HttpBody =
    Pin<Box<dyn http_body::Body<Data = Bytes, Error = Box<dyn std::error::Error + Send + Sync>> + Send>>;

/// An HTTP client of the host's own, for those who must bring one.
///
/// It follows no redirects and decodes nothing. Dropping its future, or the body of what it gives, ends the exchange. What
/// [`Network`] says about trust, proxies and addresses is its business then; URLs are still judged by what stands in them.
pub trait HttpClient: Send + Sync + 'static {
    /// Makes a request.
    fn send(&self, request: http::Request<Bytes>) -> Answering<'_>;
}

impl Network {
    /// The network as the platform has it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these certificates too, as PEM: those of a company, for example.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots.push(pem.into());
        self.made = Arc::default();
        self
    }

    /// Shows servers that ask for it this certificate, as PEM, leaf first, with its key.
    #[must_use]
    pub fn client_certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.identity = Some(Identity { chain: chain.into(), key: key.into() });
        self.made = Arc::default();
        self
    }

    /// Uses a configuration of rustls as it is, instead of what is said here about certificates.
    #[must_use]
    pub fn tls(mut self, config: ClientConfig) -> Self {
        self.tls = Some(Arc::new(config));
        self.unknown = Some(next());
        self.made = Arc::default();
        self
    }

    /// Goes through this proxy, whatever the environment says: `http://host:port` or `socks5://host:port`, with
    /// `user:password@` if needed. This machine is reached without it.
    #[must_use]
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxies = Proxies::Url(url.into());
        self
    }

    /// Uses no proxy, whatever the environment says.
    #[must_use]
    pub fn no_proxy(mut self) -> Self {
        self.proxies = Proxies::None;
        self
    }

    /// Sets where connections may go.
    #[must_use]
    pub fn policy(mut self, policy: NetworkPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Resolves names with this function instead of the platform's. What it gives is still judged by the policy.
    #[must_use]
    pub fn resolver<F, Fut>(mut self, resolver: F) -> Self
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = std::io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        self.resolver = Some(Arc::new(move |name| Box::pin(resolver(name))));
        self
    }

    /// Makes all requests with this client instead of ours.
    #[must_use]
    pub fn client(mut self, client: impl HttpClient) -> Self {
        self.client = Some(Arc::new(client));
        self.unknown = Some(next());
        self
    }

    /// What says who asks, beside headers.
    pub(crate) fn identity(&self) -> impl Iterator<Item = Vec<u8>> {
        let chain = self.identity.as_ref().map(|identity| identity.chain.clone());
        chain.into_iter().chain(self.unknown.map(|number| number.to_be_bytes().to_vec()))
    }

    /// The configuration of TLS.
    pub(super) fn tls_config(&self) -> Result<Arc<ClientConfig>, String> {
        if let Some(made) = self.made.get() {
            return Ok(Arc::clone(made));
        }
        let mut config = match &self.tls {
            Some(config) => ClientConfig::clone(config),
            None => self.make_tls()?,
        };
        if config.alpn_protocols.is_empty() {
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        }
        Ok(Arc::clone(self.made.get_or_init(|| Arc::new(config))))
    }

    fn make_tls(&self) -> Result<ClientConfig, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut extra = Vec::new();
        for pem in &self.roots {
            let before = extra.len();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                extra.push(certificate.map_err(|error| format!("invalid root certificate: {error}"))?);
            }
            if extra.len() == before {
                return Err("the root certificates contain no certificate".to_owned());
            }
        }
        let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(extra, Arc::clone(&provider))
            .map_err(|error| format!("the platform's certificates cannot be used: {error}"))?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            // The platform's, with the roots that were given: nothing is trusted that was not said to be.
            .with_custom_certificate_verifier(Arc::new(verifier));
        let Some(Identity { chain, key }) = &self.identity else { return Ok(builder.with_no_client_auth()) };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|error| format!("the client certificate cannot be read: {error}"))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| "the key of the client certificate cannot be read".to_owned())?;
        builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| format!("the client certificate cannot be used: {error}"))
    }
}

fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Keys and passwords of proxies are never shown.
impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("roots", &self.roots.len())
            .field("client_certificate", &self.identity.is_some())
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
