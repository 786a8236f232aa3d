//! Which URLs and addresses may be connected to. Pure: names are resolved elsewhere.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use mcp_protocol::visible::Visible;
use url::{Host, Url};

/// The longest URL.
const URL: usize = 2048;

/// Where connections may go.
///
/// The check binds to the address that is used: a name is resolved, every answer is looked at, and only those are
/// connected to. Behind a proxy, which resolves names itself, names and literal addresses are all that can be judged.
///
/// ```
/// use mcp_client::http::NetworkPolicy;
///
/// let policy = NetworkPolicy::public().allow_range("10.20.0.0/16")?.deny_host(".example.com")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// Only what everybody can reach, and this machine by its literal names.
    is_public: bool,
    no_loopback: bool,
    ranges: Vec<Range>,
    denied: Vec<String>,
    /// If there are any, only these.
    allowed: Vec<String>,
}

impl NetworkPolicy {
    /// The URL is allowed as it was given, wherever it leads. For URLs that the operator or the user wrote down.
    #[must_use]
    pub fn as_given() -> Self {
        Self::default()
    }

    /// HTTPS to what everybody can reach, and HTTP to this machine if the URL says `localhost` or a loopback address. For
    /// URLs from elsewhere: a language model, a registry, a server.
    #[must_use]
    pub fn public() -> Self {
        Self { is_public: true, ..Self::default() }
    }

    /// Refuses this machine too.
    #[must_use]
    pub fn without_loopback(mut self) -> Self {
        self.no_loopback = true;
        self
    }

    /// Allows a range that is not public, such as `10.20.0.0/16`.
    ///
    /// # Errors
    /// When it is no range.
    pub fn allow_range(mut self, range: &str) -> Result<Self, RangeError> {
        self.ranges.push(range.parse()?);
        Ok(self)
    }

    /// Refuses a host; `.example.com` means everything below it. This wins over everything that is allowed.
    ///
    /// The host may be written in any way that a URL allows: `Bücher.example`, `0x7f.1` and `[0::1]` mean what they mean
    /// there. A rule for a loopback address refuses `0.0.0.0` and `[::]` too, since they reach this machine.
    ///
    /// # Errors
    /// When no URL can have such a host, so that the rule would never apply.
    pub fn deny_host(mut self, host: impl AsRef<str>) -> Result<Self, HostError> {
        self.denied.push(rule(host.as_ref())?);
        Ok(self)
    }

    /// Allows this host and, from now on, no other that is not allowed too; `.example.com` means everything below it.
    ///
    /// # Errors
    /// As for [`deny_host`](Self::deny_host).
    pub fn allow_host(mut self, host: impl AsRef<str>) -> Result<Self, HostError> {
        self.allowed.push(rule(host.as_ref())?);
        Ok(self)
    }

    pub(super) fn is_public(&self) -> bool {
        self.is_public
    }

    /// Judges a URL by what stands in it.
    pub(crate) fn check_url(&self, url: &Url) -> Result<(), Denied> {
        if *self == Self::as_given() {
            return Ok(());
        }
        let (Some(host), Some(name)) = (url.host(), url.host_str()) else {
            return Err(Denied::new("it", "has no host"));
        };
        let name = name.trim_end_matches('.');
        if self.denied.iter().any(|denied| is_meant(denied, name)) {
            return Err(Denied::new(name, "is denied"));
        }
        if !self.allowed.is_empty() && !self.allowed.iter().any(|allowed| is_meant(allowed, name)) {
            return Err(Denied::new(name, "is not among the hosts that are allowed"));
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
        if self.is_public && (is_meant(".local", name) || is_meant(".internal", name)) {
            return Err(Denied::new(name, "is a name of a local network"));
        }
        self.check_scheme(name, url.scheme())
    }

    /// Judges an address that a name was resolved to.
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

    /// True for an address that is denied by itself, however it is written.
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
        // Only as it is written: other ways to wrap it lead through other machines.
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
            return Err(Denied::new(name, "needs HTTPS; HTTP is for this machine only"));
        }
        Ok(())
    }

    /// What is wrong with an address, for a host that is not this machine by its literal name.
    fn problem_with(&self, address: IpAddr) -> Option<&'static str> {
        // Who connects to no address connects to this machine.
        if self.no_loopback && (address.is_loopback() || address.is_unspecified()) {
            return Some("this machine");
        }
        if !self.is_public || self.ranges.iter().any(|range| range.contains(address)) {
            return None;
        }
        match address {
            IpAddr::V4(address) => v4_problem(address),
            IpAddr::V6(address) => v6_problem(address),
        }
    }
}

/// A rule in the form that hosts have in a parsed URL, by the same parser: otherwise it would never match.
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
            // A star is an ordinary character in a URL; whoever writes one here means a pattern.
            if is_name && !domain.contains('*') { Ok(format!("{dot}{domain}")) } else { Err(error()) }
        }
        address if dot.is_empty() => Ok(address.to_string()),
        _ => Err(error()),
    }
}

/// True if a rule, `host` or `.domain`, means this host.
fn is_meant(rule: &str, host: &str) -> bool {
    match rule.strip_prefix('.') {
        Some(domain) => host.strip_suffix(domain).is_some_and(|below| below.ends_with('.')),
        None => rule == host,
    }
}

/// The address that is meant: IPv4 inside of IPv6 is looked through.
fn unwrapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [a, b, .., g, h] = v6.segments();
    let embedded = |high: u16, low: u16| {
        let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    let upper = v6.octets();
    match () {
        // ::ffff:a.b.c.d and the older ::a.b.c.d; `::` and `::1` are addresses of their own.
        () if upper[..10] == [0; 10] && (upper[10..12] == [0xff; 2] || upper[10..12] == [0; 2] && g != 0) => {
            embedded(g, h)
        }
        // ::ffff:0:a.b.c.d, which is translated.
        () if upper[..8] == [0; 8] && upper[8..12] == [0xff, 0xff, 0, 0] => embedded(g, h),
        // NAT64 and 6to4.
        () if a == 0x64 && b == 0xff9b && upper[4..12] == [0; 8] => embedded(g, h),
        () if a == 0x2002 => embedded(b, v6.segments()[2]),
        () => address,
    }
}

fn v4_problem(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    Some(match (a, b, c) {
        (127, ..) => "this machine",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => "in a private network",
        (169, 254, _) => "an address of the local link",
        (0, ..) | (192, 0, 0 | 2) | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) | (240.., ..) => {
            "reserved"
        }
        (224..=239, ..) => "for many at once",
        _ => return None,
    })
}

fn v6_problem(address: Ipv6Addr) -> Option<&'static str> {
    let [a, b, ..] = address.segments();
    Some(match (a, b) {
        _ if address.is_loopback() => "this machine",
        _ if address.is_unspecified() => "reserved",
        (0xfc00..=0xfdff, _) | (0xfec0..=0xfeff, _) => "in a private network",
        (0xfe80..=0xfebf, _) => "an address of the local link",
        (0xff00.., _) => "for many at once",
        // Teredo, benchmarks, identifiers that are no addresses, documentation.
        (0x2001, 0 | 2 | 0x10..=0x2f | 0xdb8) | (0x3fff, 0..=0x0fff) => "reserved",
        // Nothing else was given out.
        (0x2000..=0x3fff, _) => return None,
        _ => "reserved",
    })
}

/// Why a connection is not made.
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
        write!(f, "`{}` {}", Visible::message(&self.host), Visible::message(&self.reason))
    }
}

impl std::error::Error for Denied {}

/// A range of addresses, such as `10.20.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    base: u128,
    /// How many of the 128 bits count.
    bits: u32,
}

impl Range {
    fn contains(self, address: IpAddr) -> bool {
        let shift = 128 - self.bits;
        shift == 128 || (as_bits(address) >> shift) == (self.base >> shift)
    }
}

/// As an IPv6 address, so that there is one kind of range.
fn as_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl FromStr for Range {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let error = || RangeError(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| error())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return Err(error());
        }
        Ok(Self { base: as_bits(address), bits: bits + 128 - most })
    }
}

/// Text that is no range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a range of addresses, such as 10.20.0.0/16", Visible::name(.0))]
pub struct RangeError(String);

/// Text that is not a host as it can stand in a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a host; write a name such as example.com, .example.com for all names below it, or an address",
    Visible::name(.0)
)]
pub struct HostError(String);

/// A URL that can be connected to at all.
pub(crate) fn parse_url(text: &str) -> Result<Url, &'static str> {
    if text.len() > URL {
        return Err("the URL is longer than 2048 bytes");
    }
    // A parser would leave them out silently.
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err("it has spaces or control characters");
    }
    let url = Url::parse(text).map_err(|_| "not a valid URL")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("its scheme is neither `https` nor `http`");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it holds a user name or password; use a header instead");
    }
    if url.fragment().is_some() {
        return Err("it has a fragment, which is never sent");
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiation(policy: &NetworkPolicy, url: &str) -> Result<(), Denied> {
        policy.check_url(&parse_url(url).unwrap())
    }

    #[test]
    fn http_is_allowed_for_loopback_only_and_https_for_any_host() {
        let policy = NetworkPolicy::public();
        for url in ["https://a.example", "http://localhost:1", "http://127.9.9.9", "http://[::1]:8/mcp"] {
            assert_eq!(negotiation(&policy, url), Ok(()), "{url}");
        }
        for url in ["http://a.example", "https://a.local", "https://x.internal.", "http://8.8.8.8"] {
            assert!(negotiation(&policy, url).is_err(), "{url}");
        }
        let long = format!("https://a/{}", "x".repeat(URL));
        for url in ["ftp://a", "https://u@a", "https://:p@a", "https://a/#x", "nothing", &long] {
            assert!(parse_url(url).is_err(), "{url}");
        }
        assert!(negotiation(&policy.without_loopback(), "http://localhost").is_err());
    }

    #[test]
    fn text_that_is_not_an_http_url_is_refused() {
        for text in [
            "$(id)",
            "-x",
            "--url",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:,x",
            "https://a/\nb",
            " https://a",
        ] {
            assert!(parse_url(text).is_err(), "{text:?}");
        }
        assert_eq!(parse_url("https://A.example/$(id)").unwrap().as_str(), "https://a.example/$(id)");
    }

    #[test]
    fn public_policy_denies_non_public_addresses_in_any_notation() {
        let policy = NetworkPolicy::public();
        for host in [
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "169.254.169.254",
            "0.0.0.0",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "0x0a000001",
            "167772161",
            "012.0.0.1",
            "10.1",
            "[::]",
            "[fc00::1]",
            "[fe80::1]",
            "[ff02::1]",
            "[::ffff:10.0.0.1]",
            "[64:ff9b::a00:1]",
            "[2002:a00:1::]",
            "[2002:7f00:1::]",
            "[64:ff9b::7f00:1]",
            "[::10.0.0.1]",
            "[64:ff9b:1::1]",
            "[2001::1]",
            "[::ffff:0:10.0.0.1]",
            "[::ffff:0:127.0.0.1]",
            "[100::1]",
            "[3fff::1]",
            "[4000::1]",
            "[5f00::1]",
        ] {
            assert!(negotiation(&policy, &format!("https://{host}/")).is_err(), "{host}");
        }
        for host in ["8.8.8.8", "[2606:4700::1]", "[64:ff9b::808:808]", "172.32.0.1", "100.128.0.1"] {
            assert_eq!(negotiation(&policy, &format!("https://{host}/")), Ok(()), "{host}");
        }
        // A name that leads here is no literal loopback name.
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1"] {
            assert!(policy.check_address("a.example", address.parse().unwrap()).is_err(), "{address}");
        }
        assert_eq!(policy.check_address("localhost", "127.0.0.1".parse().unwrap()), Ok(()));
        assert!(policy.check_address("localhost", "10.0.0.1".parse().unwrap()).is_err());
    }

    #[test]
    fn denied_and_loopback_addresses_are_denied_in_any_notation() {
        let denying = NetworkPolicy::as_given().deny_host("10.0.0.1").unwrap().deny_host("::1").unwrap();
        for host in ["10.0.0.1", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "[::1]"] {
            assert!(negotiation(&denying, &format!("https://{host}/")).is_err(), "{host}");
        }
        for address in ["10.0.0.1", "::ffff:10.0.0.1", "::1"] {
            assert!(denying.check_address("a.example", address.parse().unwrap()).is_err(), "{address}");
        }
        assert_eq!(negotiation(&denying, "https://10.0.0.2/"), Ok(()));
        let elsewhere = NetworkPolicy::as_given().without_loopback();
        for host in ["127.0.0.1", "[::1]", "0.0.0.0", "[::]", "[::ffff:0.0.0.0]"] {
            assert!(negotiation(&elsewhere, &format!("http://{host}/")).is_err(), "{host}");
        }
        assert!(elsewhere.check_address("a.example", "0.0.0.0".parse().unwrap()).is_err());
    }

    #[test]
    fn only_explicitly_allowed_ranges_are_opened() {
        let policy =
            NetworkPolicy::public().allow_range("10.20.0.0/16").unwrap().allow_range("fd00::/8").unwrap();
        for (address, is_open) in [
            ("10.20.1.1", true),
            ("::ffff:10.20.0.1", true),
            ("10.21.0.1", false),
            ("fd12::1", true),
            ("fc00::1", false),
        ] {
            assert_eq!(policy.check_address("a", address.parse().unwrap()).is_ok(), is_open, "{address}");
        }
        for wrong in ["10", "10.0.0.0/33", "x/8", "10.0.0.0/x", ""] {
            assert!(NetworkPolicy::public().allow_range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn deny_rules_win_and_a_leading_dot_matches_subdomains_only() {
        let policy = NetworkPolicy::as_given()
            .allow_host(".example.com")
            .unwrap()
            .allow_host("a.org")
            .unwrap()
            .deny_host("bad.example.com")
            .unwrap();
        for (url, is_allowed) in [
            ("https://x.example.com", true),
            ("https://example.com", false),
            ("https://notexample.com", false),
            ("https://BAD.example.com", false),
            ("https://a.org", true),
            ("https://b.org", false),
        ] {
            assert_eq!(negotiation(&policy, url).is_ok(), is_allowed, "{url}");
        }
        let policy = NetworkPolicy::as_given().deny_host("::1").unwrap().deny_host("B.org.").unwrap();
        assert!(
            negotiation(&policy, "http://[0:0::1]:8/").is_err()
                && negotiation(&policy, "http://b.org").is_err()
        );
        assert_eq!(negotiation(&NetworkPolicy::as_given(), "http://10.0.0.1"), Ok(()), "the author gave it");
    }

    #[test]
    fn host_rules_match_however_the_host_is_written() {
        let spellings: [(&str, &[&str]); 8] = [
            ("bücher.example", &["bücher.example", "xn--bcher-kva.example", "BÜCHER.example."]),
            ("0x7f.1", &["127.0.0.1", "0x7f.1", "2130706433", "0177.0.0.1", "[::ffff:127.0.0.1]"]),
            ("A.Example.", &["a.example", "A.EXAMPLE.", "%61.example"]),
            ("example.com。", &["example.com", "example.com."]),
            ("[0:0:0:0:0:0:0:1]", &["[::1]", "[0::1]"]),
            ("2001:DB8::0:1", &["[2001:db8::1]", "[2001:db8:0::1]"]),
            ("::ffff:10.0.0.1", &["[::ffff:a00:1]", "[::ffff:10.0.0.1]"]),
            (".Bücher.example", &["a.xn--bcher-kva.example", "a.b.bücher.example"]),
        ];
        for (rule, hosts) in spellings {
            let denying = NetworkPolicy::as_given().deny_host(rule).unwrap();
            let allowing = NetworkPolicy::as_given().allow_host(rule).unwrap();
            for host in hosts {
                let url = format!("https://{host}/");
                assert!(negotiation(&denying, &url).is_err(), "{rule} does not deny {host}");
                // An address is allowed only in the family that was named.
                if !(rule == "0x7f.1" && host.starts_with('[')) {
                    assert_eq!(negotiation(&allowing, &url), Ok(()), "{rule} does not allow {host}");
                }
            }
            assert_eq!(negotiation(&denying, "https://other.example/"), Ok(()), "{rule}");
            assert!(negotiation(&allowing, "https://other.example/").is_err(), "{rule}");
        }
    }

    #[test]
    fn host_rules_that_never_match_are_refused() {
        for rule in [
            "",
            ".",
            "..example.com",
            "a..example.com",
            "*.example.com",
            "*",
            ".10.0.0.1",
            ".[::1]",
            "https://example.com",
            "example.com:443",
            "example.com/",
            " example.com",
            "1.2.3.4.5",
            "[::1",
            "fe80::1%eth0",
            "user@example.com",
        ] {
            assert!(NetworkPolicy::public().deny_host(rule).is_err(), "{rule:?}");
            assert!(NetworkPolicy::public().allow_host(rule).is_err(), "{rule:?}");
        }
        let error = NetworkPolicy::public().deny_host("a\u{1b}[2J.example").unwrap_err();
        assert!(error.to_string().starts_with("`a\\u{1b}[2J.example` is not a host"), "{error}");
    }

    #[test]
    fn denied_loopback_denies_the_unspecified_address() {
        for rule in ["127.0.0.1", "::1", "127.9.9.9"] {
            let policy = NetworkPolicy::as_given().deny_host(rule).unwrap();
            for host in ["0.0.0.0", "[::]", "[::ffff:0.0.0.0]", "0"] {
                assert!(negotiation(&policy, &format!("http://{host}/")).is_err(), "{rule} allows {host}");
            }
            for address in ["0.0.0.0", "::", "::ffff:0.0.0.0"] {
                let checked = policy.check_address("a.example", address.parse().unwrap());
                assert!(checked.is_err(), "{rule} allows {address}");
            }
            assert_eq!(negotiation(&policy, "http://10.0.0.1/"), Ok(()), "{rule}");
        }
        let policy = NetworkPolicy::as_given().deny_host("10.0.0.1").unwrap();
        assert_eq!(negotiation(&policy, "http://0.0.0.0/"), Ok(()), "another address was denied");
    }
}
