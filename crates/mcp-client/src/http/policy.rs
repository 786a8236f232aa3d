//! The network policy: which URLs and addresses may be connected to. This module does no I/O; names are resolved
//! elsewhere.

mod address;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use mcp_protocol::safe_text::SafeText;
use url::{Host, Url};

pub use address::RangeError;
use address::{Range, unwrapped};

/// The URLs and addresses that may be connected to.
///
/// A host name is resolved once, all its addresses are checked, and only checked addresses are connected to. A proxy
/// resolves names itself; with a proxy, only the name or the literal address in the URL is checked.
///
/// ```
/// use mcp_client::http::NetworkPolicy;
///
/// let policy = NetworkPolicy::public().allow_range("10.20.0.0/16")?.deny_host(".example.com")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "SSRF")]
#[doc(alias = "allowlist")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// True if only public addresses are allowed, and this machine by `localhost` or a literal loopback address.
    is_public: bool,
    no_loopback: bool,
    ranges: Vec<Range>,
    denied: Vec<String>,
    /// If not empty, only these hosts are allowed.
    allowed: Vec<String>,
}

impl NetworkPolicy {
    /// Allows any URL. Use it for URLs that the operator or the user configured.
    #[must_use]
    pub fn as_given() -> Self {
        Self::default()
    }

    /// Allows HTTPS to public addresses. Also allows HTTP and HTTPS to this machine if the host is `localhost` or a
    /// literal loopback address. Use it for URLs from untrusted sources: a language model, a registry, a server.
    #[must_use]
    pub fn public() -> Self {
        Self { is_public: true, ..Self::default() }
    }

    /// Also denies connections to this machine.
    #[must_use]
    pub fn without_loopback(mut self) -> Self {
        self.no_loopback = true;
        self
    }

    /// Allows a range of addresses that [`public`](Self::public) would deny, such as `10.20.0.0/16`.
    ///
    /// # Errors
    /// Fails if the text is not an address or a range in CIDR notation.
    #[doc(alias = "CIDR")]
    pub fn allow_range(mut self, range: &str) -> Result<Self, RangeError> {
        self.ranges.push(range.parse()?);
        Ok(self)
    }

    /// Denies a host. `.example.com` matches all subdomains of `example.com`, but not `example.com` itself. A deny rule
    /// takes precedence over all allow rules.
    ///
    /// The host may have any notation that a URL allows, such as `Bücher.example`, `0x7f.1` or `[0::1]`; it is
    /// normalized like the host of a URL. A rule for a loopback address also denies `0.0.0.0` and `[::]`, which reach
    /// this machine.
    ///
    /// # Errors
    /// Fails if the text is not a valid host of a URL, because such a rule would never match.
    pub fn deny_host(mut self, host: impl AsRef<str>) -> Result<Self, HostError> {
        self.denied.push(rule(host.as_ref())?);
        Ok(self)
    }

    /// Allows a host. `.example.com` matches all subdomains of `example.com`, but not `example.com` itself. With at
    /// least one such rule, all other hosts are denied.
    ///
    /// # Errors
    /// Fails like [`deny_host`](Self::deny_host).
    pub fn allow_host(mut self, host: impl AsRef<str>) -> Result<Self, HostError> {
        self.allowed.push(rule(host.as_ref())?);
        Ok(self)
    }

    pub(super) fn is_public(&self) -> bool {
        self.is_public
    }

    /// Checks a URL without resolving its host.
    pub(crate) fn check_url(&self, url: &Url) -> Result<(), Denied> {
        if *self == Self::as_given() {
            return Ok(());
        }
        let (Some(host), Some(name)) = (url.host(), url.host_str()) else {
            return Err(Denied::new("the URL", "has no host"));
        };
        let name = name.trim_end_matches('.');
        if self.denied.iter().any(|denied| matches_host(denied, name)) {
            return Err(Denied::new(name, "is denied"));
        }
        if !self.allowed.is_empty() && !self.allowed.iter().any(|allowed| matches_host(allowed, name)) {
            return Err(Denied::new(name, "is not an allowed host"));
        }
        let address = match host {
            Host::Ipv4(address) => Some(IpAddr::V4(address)),
            Host::Ipv6(address) => Some(IpAddr::V6(address)),
            Host::Domain(_) => None,
        };
        if let Some(address) = address {
            return self.check_literal(name, address, url.scheme());
        }
        if name == "localhost" {
            return self.check_loopback(name);
        }
        if self.is_public && (matches_host(".local", name) || matches_host(".internal", name)) {
            return Err(Denied::new(name, "is a name of a local network"));
        }
        self.check_scheme(name, url.scheme())
    }

    /// Checks an address to which a host name was resolved.
    pub(crate) fn check_address(&self, host: &str, address: IpAddr) -> Result<(), Denied> {
        let address = unwrapped(address);
        if self.denies(address) {
            return Err(Denied::new(host, format!("is at {address}, which is denied")));
        }
        if host == "localhost" && address.is_loopback() {
            return self.check_loopback(host);
        }
        match self.problem_with(address) {
            None => Ok(()),
            Some(problem) => Err(Denied::new(host, format!("is at {address}, which is {problem}"))),
        }
    }

    /// Returns true if a rule denies this address, in any notation.
    fn denies(&self, address: IpAddr) -> bool {
        let address = unwrapped(address);
        let rules = self.denied.iter().filter_map(|rule| {
            rule.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok().map(unwrapped)
        });
        // A connection to the unspecified address reaches this machine.
        let is_denied =
            |denied: IpAddr| denied == address || (denied.is_loopback() && address.is_unspecified());
        rules.into_iter().any(is_denied)
    }

    fn check_literal(&self, name: &str, address: IpAddr, scheme: &str) -> Result<(), Denied> {
        if self.denies(address) {
            return Err(Denied::new(name, "is denied"));
        }
        // Only IPv4-mapped addresses count as loopback here: addresses of other embeddings are routed through other
        // machines.
        if address.to_canonical().is_loopback() {
            return self.check_loopback(name);
        }
        match self.problem_with(unwrapped(address)) {
            Some(problem) => Err(Denied::new(name, format!("is {problem}"))),
            None => self.check_scheme(name, scheme),
        }
    }

    fn check_loopback(&self, name: &str) -> Result<(), Denied> {
        if self.no_loopback { Err(Denied::new(name, "is this machine")) } else { Ok(()) }
    }

    fn check_scheme(&self, name: &str, scheme: &str) -> Result<(), Denied> {
        if self.is_public && scheme != "https" {
            return Err(Denied::new(name, "needs HTTPS; plain HTTP is allowed only for this machine"));
        }
        Ok(())
    }

    /// Returns the reason to deny an address, if the host is not `localhost` or a literal loopback address.
    fn problem_with(&self, address: IpAddr) -> Option<&'static str> {
        // A connection to the unspecified address reaches this machine.
        if self.no_loopback && (address.is_loopback() || address.is_unspecified()) {
            return Some("this machine");
        }
        if !self.is_public || self.ranges.iter().any(|range| range.contains(address)) {
            return None;
        }
        address::problem(address)
    }
}

/// Normalizes a rule with the parser for hosts of URLs. A rule that is written differently would otherwise never match.
fn rule(text: &str) -> Result<String, HostError> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(Host::<String>::Ipv6(address).to_string());
    }
    let error = || HostError(text.to_owned());
    let (dot, host) = text.split_at(usize::from(text.starts_with('.')));
    match Host::parse(host).map_err(|_| error())? {
        Host::Domain(domain) => {
            let domain = domain.trim_end_matches('.');
            let is_name = !domain.is_empty() && !domain.starts_with('.') && !domain.contains("..");
            // In a host, `*` is an ordinary character. In a rule, it is meant as a pattern, which is not supported.
            if is_name && !domain.contains('*') { Ok(format!("{dot}{domain}")) } else { Err(error()) }
        }
        address if dot.is_empty() => Ok(address.to_string()),
        _ => Err(error()),
    }
}

/// Returns true if a rule (`host` or `.domain`) matches this host.
fn matches_host(rule: &str, host: &str) -> bool {
    match rule.strip_prefix('.') {
        Some(domain) => host.strip_suffix(domain).is_some_and(|below| below.ends_with('.')),
        None => rule == host,
    }
}

/// A connection that the policy denies, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) host: String,
    pub(crate) reason: String,
}

impl Denied {
    fn new(host: &str, reason: impl Into<String>) -> Self {
        Self { host: host.to_owned(), reason: reason.into() }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", SafeText::message(&self.host), SafeText::message(&self.reason))
    }
}

impl std::error::Error for Denied {}

/// The error for text that is not a valid host of a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a host; write a name such as example.com, .example.com for all names below it, or an address",
    SafeText::name(.0)
)]
pub struct HostError(String);
