//! Addresses and address ranges: which addresses are public, and which IPv4 address is embedded in an IPv6 address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use mcp_protocol::safe_text::SafeText;

/// Returns the IPv4 address that is embedded in an IPv6 address, or the address itself.
pub(super) fn unwrapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [a, b, .., g, h] = v6.segments();
    let embedded = |high: u16, low: u16| {
        let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    let upper = v6.octets();
    match () {
        // IPv4-mapped ::ffff:a.b.c.d, and IPv4-compatible ::a.b.c.d except `::` and `::1`.
        () if upper[..10] == [0; 10] && (upper[10..12] == [0xff; 2] || upper[10..12] == [0; 2] && g != 0) => {
            embedded(g, h)
        }
        // IPv4-translated ::ffff:0:a.b.c.d.
        () if upper[..8] == [0; 8] && upper[8..12] == [0xff, 0xff, 0, 0] => embedded(g, h),
        // NAT64 and 6to4.
        () if a == 0x64 && b == 0xff9b && upper[4..12] == [0; 8] => embedded(g, h),
        () if a == 0x2002 => embedded(b, v6.segments()[2]),
        () => address,
    }
}

/// Returns the reason why an address is not public, or `None` if it is.
pub(super) fn problem(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => v4_problem(address),
        IpAddr::V6(address) => v6_problem(address),
    }
}

fn v4_problem(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    Some(match (a, b, c) {
        (127, ..) => "this machine",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => "in a private network",
        (169, 254, _) => "a link-local address",
        (0, ..) | (192, 0, 0 | 2) | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) | (240.., ..) => {
            "reserved"
        }
        (224..=239, ..) => "a multicast address",
        _ => return None,
    })
}

fn v6_problem(address: Ipv6Addr) -> Option<&'static str> {
    let [a, b, ..] = address.segments();
    Some(match (a, b) {
        _ if address.is_loopback() => "this machine",
        _ if address.is_unspecified() => "reserved",
        (0xfc00..=0xfdff, _) | (0xfec0..=0xfeff, _) => "in a private network",
        (0xfe80..=0xfebf, _) => "a link-local address",
        (0xff00.., _) => "a multicast address",
        // Special ranges: Teredo, benchmarking, ORCHID, documentation.
        (0x2001, 0 | 2 | 0x10..=0x2f | 0xdb8) | (0x3fff, 0..=0x0fff) => "reserved",
        // Global unicast addresses are allocated in this range only.
        (0x2000..=0x3fff, _) => return None,
        _ => "reserved",
    })
}

/// A range of addresses, such as `10.20.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    base: u128,
    /// The length of the prefix in bits, from 0 to 128.
    bits: u32,
}

impl Range {
    pub(super) fn contains(self, address: IpAddr) -> bool {
        let shift = 128 - self.bits;
        shift == 128 || (as_bits(address) >> shift) == (self.base >> shift)
    }
}

/// Converts an address to the bits of an IPv6 address, so that there is one kind of range.
fn as_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Parses the length of a prefix: decimal digits without a sign and without leading zeros. Other programs read a number
/// with a leading zero as octal.
fn prefix_length(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

impl FromStr for Range {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let error = || RangeError(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(prefix_length(bits).ok_or_else(error)?)),
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

/// The error for text that is not a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a range of addresses, such as 10.20.0.0/16", SafeText::name(.0))]
pub struct RangeError(String);
