use super::*;
use crate::http::target_url::parse_url;

fn check(policy: &NetworkPolicy, url: &str) -> Result<(), Denied> {
    policy.check_url(&parse_url(url).unwrap())
}

#[test]
fn http_is_allowed_for_loopback_only_and_https_for_any_host() {
    let policy = NetworkPolicy::public();
    for url in ["https://a.example", "http://localhost:1", "http://127.9.9.9", "http://[::1]:8/mcp"] {
        assert_eq!(check(&policy, url), Ok(()), "{url}");
    }
    for url in ["http://a.example", "https://a.local", "https://x.internal.", "http://8.8.8.8"] {
        assert!(check(&policy, url).is_err(), "{url}");
    }
    assert!(check(&policy.without_loopback(), "http://localhost").is_err());
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
        assert!(check(&policy, &format!("https://{host}/")).is_err(), "{host}");
    }
    for host in ["8.8.8.8", "[2606:4700::1]", "[64:ff9b::808:808]", "172.32.0.1", "100.128.0.1"] {
        assert_eq!(check(&policy, &format!("https://{host}/")), Ok(()), "{host}");
    }
    // A name that resolves to this machine is not a literal loopback name.
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
        assert!(check(&denying, &format!("https://{host}/")).is_err(), "{host}");
    }
    for address in ["10.0.0.1", "::ffff:10.0.0.1", "::1"] {
        assert!(denying.check_address("a.example", address.parse().unwrap()).is_err(), "{address}");
    }
    assert_eq!(check(&denying, "https://10.0.0.2/"), Ok(()));
    let elsewhere = NetworkPolicy::as_given().without_loopback();
    for host in ["127.0.0.1", "[::1]", "0.0.0.0", "[::]", "[::ffff:0.0.0.0]"] {
        assert!(check(&elsewhere, &format!("http://{host}/")).is_err(), "{host}");
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
    for wrong in [
        "10",
        "10.0.0.0/33",
        "x/8",
        "10.0.0.0/x",
        "",
        "10.0.0.0/+8",
        "10.0.0.0/008",
        "10.0.0.0/08",
        "10.0.0.0/",
        "::/00",
    ] {
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
        assert_eq!(check(&policy, url).is_ok(), is_allowed, "{url}");
    }
    let policy = NetworkPolicy::as_given().deny_host("::1").unwrap().deny_host("B.org.").unwrap();
    assert!(check(&policy, "http://[0:0::1]:8/").is_err() && check(&policy, "http://b.org").is_err());
    assert_eq!(check(&NetworkPolicy::as_given(), "http://10.0.0.1"), Ok(()), "any URL is allowed");
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
            assert!(check(&denying, &url).is_err(), "{rule} does not deny {host}");
            // An address is allowed only in the address family of the rule.
            if !(rule == "0x7f.1" && host.starts_with('[')) {
                assert_eq!(check(&allowing, &url), Ok(()), "{rule} does not allow {host}");
            }
        }
        assert_eq!(check(&denying, "https://other.example/"), Ok(()), "{rule}");
        assert!(check(&allowing, "https://other.example/").is_err(), "{rule}");
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
            assert!(check(&policy, &format!("http://{host}/")).is_err(), "{rule} allows {host}");
        }
        for address in ["0.0.0.0", "::", "::ffff:0.0.0.0"] {
            let checked = policy.check_address("a.example", address.parse().unwrap());
            assert!(checked.is_err(), "{rule} allows {address}");
        }
        assert_eq!(check(&policy, "http://10.0.0.1/"), Ok(()), "{rule}");
    }
    let policy = NetworkPolicy::as_given().deny_host("10.0.0.1").unwrap();
    assert_eq!(check(&policy, "http://0.0.0.0/"), Ok(()), "another address was denied");
}
