//! The network settings: certificates, proxies, resolver, policy, HTTP client.

use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::http_error::HttpError;
use super::policy::NetworkPolicy;
use crate::wire_trace::ConnectionTrace;

/// The network settings for servers behind a URL. Create one value, and use it for all connections.
///
/// By default, the certificates of the platform are trusted and every URL is allowed. The environment variables
/// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` are used, but not for connections to this machine, and not
/// with [`NetworkPolicy::public`].
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
    identity: Option<ClientCertificate>,
    tls: Option<Arc<ClientConfig>>,
    pub(super) proxies: Proxies,
    pub(super) policy: NetworkPolicy,
    pub(super) resolver: Option<Resolver>,
    pub(super) client: Option<Arc<dyn HttpClient>>,
    /// The wire trace of the connection that these settings are for.
    pub(super) trace: Option<ConnectionTrace>,
    /// Adds authorization to the requests of the connection that these settings are for.
    #[cfg(feature = "oauth")]
    pub(super) authorizer: Option<Arc<dyn super::authorizer::Authorizer>>,
    /// A unique number for a custom client or TLS configuration. It keeps their responses apart in the response cache,
    /// because their credentials are not known.
    custom_id: Option<u64>,
    /// The TLS configuration, built when it is first needed.
    built_tls: Arc<OnceLock<Arc<ClientConfig>>>,
}

/// A client certificate and its key, in PEM.
#[derive(Clone)]
struct ClientCertificate {
    chain: Vec<u8>,
    key: Vec<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Proxies {
    /// The proxies that the environment variables name.
    #[default]
    Environment,
    None,
    Url(String),
}

type Resolving = Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>>;

/// A function that resolves a host name to addresses.
pub(super) type Resolver = Arc<dyn Fn(String) -> Resolving + Send + Sync>;

/// The future returned by [`HttpClient::send`].
pub type ResponseFuture<'a> =
    Pin<Box<dyn Future<Output = Result<http::Response<HttpBody>, HttpError>> + Send + 'a>>;

/// A streaming response body.
pub type HttpBody =
    Pin<Box<dyn http_body::Body<Data = Bytes, Error = Box<dyn std::error::Error + Send + Sync>> + Send>>;

/// A custom HTTP client, for applications that must use their own.
///
/// The client must not follow redirects or decode bodies. Dropping the future of [`send`](Self::send), or the response
/// body, must end the exchange. The settings of [`Network`] for certificates, proxies and name resolution do not apply
/// to this client, and the policy checks only the URL.
pub trait HttpClient: Send + Sync + 'static {
    /// Sends a request. Returns the response as soon as its headers have arrived.
    fn send(&self, request: http::Request<Bytes>) -> ResponseFuture<'_>;
}

impl Network {
    /// Creates settings with the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts additional root certificates, given in PEM, such as that of a company's certificate authority.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots.push(pem.into());
        self.built_tls = Arc::default();
        self
    }

    /// Sets the client certificate for servers that request one (mutual TLS). `chain` is the certificate chain in PEM,
    /// with the client's own certificate first; `key` is its private key in PEM.
    #[doc(alias = "mTLS")]
    #[must_use]
    pub fn client_certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.identity = Some(ClientCertificate { chain: chain.into(), key: key.into() });
        self.built_tls = Arc::default();
        self
    }

    /// Sets the rustls configuration. It replaces all other certificate settings.
    #[must_use]
    pub fn tls(mut self, config: ClientConfig) -> Self {
        self.tls = Some(Arc::new(config));
        self.custom_id = Some(next_custom_id());
        self.built_tls = Arc::default();
        self
    }

    /// Sets the proxy, and ignores those of the environment variables: `http://host:port` or `socks5://host:port`, with
    /// `user:password@` if needed. Connections to this machine never use a proxy.
    #[must_use]
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxies = Proxies::Url(url.into());
        self
    }

    /// Disables proxies, including those of the environment variables.
    #[must_use]
    pub fn no_proxy(mut self) -> Self {
        self.proxies = Proxies::None;
        self
    }

    /// Sets the policy for URLs and addresses.
    #[must_use]
    pub fn policy(mut self, policy: NetworkPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the function that resolves host names, instead of the resolver of the platform. The policy still checks the
    /// addresses.
    #[doc(alias = "DNS")]
    #[must_use]
    pub fn resolver<F, Fut>(mut self, resolver: F) -> Self
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = std::io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        self.resolver = Some(Arc::new(move |name| Box::pin(resolver(name))));
        self
    }

    /// Sets a custom HTTP client, which sends all requests.
    #[must_use]
    pub fn client(mut self, client: impl HttpClient) -> Self {
        self.client = Some(Arc::new(client));
        self.custom_id = Some(next_custom_id());
        self
    }

    /// Sets what adds authorization to the requests of the connection.
    #[cfg(feature = "oauth")]
    pub(crate) fn authorized(self, authorizer: Arc<dyn super::authorizer::Authorizer>) -> Self {
        // Responses of different logins must not be mixed in a shared cache.
        Self { authorizer: Some(authorizer), custom_id: Some(next_custom_id()), ..self }
    }

    /// Returns the policy for URLs and addresses.
    #[cfg(feature = "oauth")]
    pub(crate) fn current_policy(&self) -> &NetworkPolicy {
        &self.policy
    }

    /// Sets the wire trace to which the exchanges of the connection are written.
    pub(crate) fn traced(self, trace: Option<ConnectionTrace>) -> Self {
        Self { trace, ..self }
    }

    /// Returns what identifies the credentials of a connection besides its headers.
    pub(crate) fn identity(&self) -> impl Iterator<Item = Vec<u8>> {
        let chain = self.identity.as_ref().map(|identity| identity.chain.clone());
        chain.into_iter().chain(self.custom_id.map(|number| number.to_be_bytes().to_vec()))
    }

    /// Returns the TLS configuration, and builds it if needed.
    pub(super) fn tls_config(&self) -> Result<Arc<ClientConfig>, String> {
        if let Some(built) = self.built_tls.get() {
            return Ok(Arc::clone(built));
        }
        let mut config = match &self.tls {
            Some(config) => ClientConfig::clone(config),
            None => self.build_tls()?,
        };
        if config.alpn_protocols.is_empty() {
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        }
        Ok(Arc::clone(self.built_tls.get_or_init(|| Arc::new(config))))
    }

    fn build_tls(&self) -> Result<ClientConfig, String> {
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
            // This is not dangerous: the verifier is that of the platform, with the additional roots.
            .with_custom_certificate_verifier(Arc::new(verifier));
        let Some(ClientCertificate { chain, key }) = &self.identity else {
            return Ok(builder.with_no_client_auth());
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|error| format!("the client certificate cannot be read: {error}"))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| "the key of the client certificate cannot be read".to_owned())?;
        builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| format!("the client certificate cannot be used: {error}"))
    }
}

fn next_custom_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Does not show keys or proxy passwords.
impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("roots", &self.roots.len())
            .field("client_certificate", &self.identity.is_some())
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
