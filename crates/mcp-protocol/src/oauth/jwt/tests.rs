use super::*;

const RULES: JwtRules<'_> = JwtRules { issuer: "https://as", audience: "https://h/mcp" };
const NOW: Duration = Duration::from_secs(1_800_000_000);

fn token(header: &str, claims: &str) -> String {
    format!(
        "{}.{}.{}",
        URL_SAFE_NO_PAD.encode(header),
        URL_SAFE_NO_PAD.encode(claims),
        URL_SAFE_NO_PAD.encode("sig")
    )
}

/// Returns the claims of a valid token with `more` added.
fn claims(more: &str) -> String {
    format!(r#"{{"iss":"https://as","aud":"https://h/mcp","exp":1800000100{more}}}"#)
}

#[test]
fn token_is_split_into_its_parts() {
    let text = token(r#"{"alg":"ES256","kid":"k1","typ":"at+jwt"}"#, r#"{"a":1}"#);
    let jwt = Jwt::parse(&text).unwrap();
    assert_eq!((jwt.algorithm.as_str(), jwt.key_id.as_deref()), ("ES256", Some("k1")));
    assert_eq!((jwt.claims.as_str(), jwt.signature.as_slice()), (r#"{"a":1}"#, &b"sig"[..]));
    assert_eq!(jwt.signed, text.rsplit_once('.').unwrap().0.as_bytes());
    let shown = format!("{jwt:?}");
    assert!(shown.contains("ES256") && !shown.contains("\"a\"") && !shown.contains("sig"), "{shown}");
}

#[test]
fn other_texts_are_not_accepted() {
    let header = |header: &str| Jwt::parse(&token(header, "{}")).map(|_| ());
    for kind in ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", "Application/JWT"] {
        assert_eq!(header(&format!(r#"{{"alg":"RS256","typ":"{kind}"}}"#)), Ok(()), "{kind}");
    }
    for kind in ["dpop+jwt", "id+jwt", "text/jwt", "logout+jwt", ""] {
        assert_eq!(header(&format!(r#"{{"alg":"RS256","typ":"{kind}"}}"#)), Err(JwtError::Kind), "{kind}");
    }
    assert_eq!(header(r#"{"alg":"RS256"}"#), Ok(()));
    assert_eq!(header(r#"{"alg":"RS256","crit":["b64"]}"#), Err(JwtError::Critical));
    for bad in [r#"{"typ":"JWT"}"#, r#"{"alg":1}"#, "[]", "", "{"] {
        assert_eq!(header(bad), Err(JwtError::Malformed), "{bad}");
    }
    let good = token(r#"{"alg":"RS256"}"#, "{}");
    for bad in [
        "",
        ".",
        "..",
        "a.b",
        "opaque-token",
        &format!("{good}="),
        &format!("x.{good}"),
        &good.replace('.', " "),
    ] {
        assert_eq!(Jwt::parse(bad).map(|_| ()), Err(JwtError::Malformed), "{bad}");
    }
    let long = token(r#"{"alg":"RS256"}"#, &"x".repeat(MAX_TOKEN_BYTES));
    assert_eq!(Jwt::parse(&long).map(|_| ()), Err(JwtError::Malformed));
    let not_text =
        format!("{}.{}.x", URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256"}"#), URL_SAFE_NO_PAD.encode([0xff]));
    assert_eq!(Jwt::parse(&not_text).map(|_| ()), Err(JwtError::Malformed));
}

#[test]
fn issuer_and_audience_are_compared_byte_for_byte() {
    let check = |claims: &str| RULES.check(claims, NOW).map(|_| ());
    assert_eq!(check(&claims("")), Ok(()));
    for issuer in ["https://as/", "https://AS", "https://as.evil", ""] {
        assert_eq!(check(&claims("").replace("https://as", issuer)), Err(JwtError::Issuer), "{issuer}");
    }
    assert_eq!(check(r#"{"aud":"https://h/mcp","exp":1800000100}"#), Err(JwtError::Issuer));
    for audience in [r#""https://h/mcp/""#, r#""https://h""#, "[]", r#"["https://h/mcp2","https://H/mcp"]"#] {
        let other = claims("").replace(r#""https://h/mcp""#, audience);
        assert_eq!(check(&other), Err(JwtError::Audience), "{audience}");
    }
    assert_eq!(check(r#"{"iss":"https://as","exp":1800000100}"#), Err(JwtError::Audience));
    assert_eq!(check(&claims("").replace(r#""https://h/mcp""#, r#"["x","https://h/mcp"]"#)), Ok(()));
    // Of members with the same name, the last one counts.
    assert_eq!(check(&claims(r#","iss":"x""#)), Err(JwtError::Issuer));
    assert_eq!(check(&claims(r#","aud":"x""#)), Err(JwtError::Audience));
    for bad in [
        r#","iss":1"#,
        r#","aud":[1]"#,
        r#","aud":{}"#,
        r#","sub":1"#,
        r#","azp":[]"#,
        r#","scope":5"#,
        r#","nbf":"x""#,
    ] {
        assert_eq!(check(&claims(bad)), Err(JwtError::Malformed), "{bad}");
    }
    assert_eq!(check("[]"), Err(JwtError::Malformed));
}

#[test]
fn times_are_checked_with_a_minute_of_leeway() {
    let at = |claims: &str, seconds: u64| RULES.check(claims, Duration::from_secs(seconds)).map(|_| ());
    assert_eq!(at(&claims(""), 1_800_000_159), Ok(()));
    assert_eq!(at(&claims(""), 1_800_000_160), Err(JwtError::Expired));
    let later = claims(r#","nbf":1800000000.5"#);
    assert_eq!(at(&later, 1_799_999_941), Ok(()));
    assert_eq!(at(&later, 1_799_999_940), Err(JwtError::NotYetValid));
    assert_eq!(at(r#"{"iss":"https://as","aud":"https://h/mcp"}"#, 0), Err(JwtError::NoExpiry));
    let expiry = |exp: &str| claims("").replace("1800000100", exp);
    for bad in ["-1", "1e300", "\"1800000100\""] {
        assert_eq!(at(&expiry(bad), 0), Err(JwtError::Malformed), "{bad}");
    }
    assert_eq!(at(&claims(r#","nbf":-1"#), 0), Err(JwtError::Malformed));
    // The largest time does not overflow.
    assert_eq!(at(&expiry("1.8e19"), 0), Ok(()));
}

#[test]
fn caller_and_scopes_are_read_in_all_notations() {
    let read = |more: &str| RULES.check(&claims(more), NOW).unwrap();
    let found = read(r#","sub":"alice","client_id":"cli","azp":"other","scope":"a b  c","x":[1]"#);
    assert_eq!((found.subject.as_deref(), found.client_id.as_deref()), (Some("alice"), Some("cli")));
    assert_eq!((found.scopes.to_string().as_str(), found.all.member("x")), ("a b c", Some("[1]")));
    assert_eq!(found.expires_at, Duration::from_secs(1_800_000_100));
    assert_eq!(read(r#","azp":"app","scp":["a","b c"]"#).scopes.to_string(), "a b c");
    assert_eq!(read(r#","azp":"app""#).client_id.as_deref(), Some("app"));
    let none = read(r#","sub":"","client_id":"""#);
    assert_eq!((none.subject, none.client_id, none.scopes), (None, None, Scopes::new()));
}
