//! The response of an authorization server that arrives through the browser of the user.
//!
//! Spec: RFC 6749, section 4.1.2; RFC 9207; MCP 2026-07-28, basic/authorization.

/// What a client remembers from the beginning of a login to its end.
///
/// ```
/// use mcp_protocol::oauth::redirect::{ExpectedRedirect, RedirectError};
///
/// let expected = ExpectedRedirect { state: "s1", issuer: "https://as.example", names_issuer: true };
/// let parameters = [("code", "c1"), ("state", "s1"), ("iss", "https://as.example")];
/// assert_eq!(expected.check(parameters), Ok("c1".to_owned()));
/// assert_eq!(expected.check([("code", "c1"), ("state", "s2")]), Err(RedirectError::State));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ExpectedRedirect<'a> {
    /// The random text that was sent with the request.
    pub state: &'a str,
    /// The issuer at which the user logs in.
    pub issuer: &'a str,
    /// True if this issuer names itself in its responses (`authorization_response_iss_parameter_supported`).
    pub names_issuer: bool,
}

/// The reason why a response has no code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedirectError {
    /// It is not the response to this login.
    State,
    /// It does not come from the expected issuer: another authorization server may try to get at the code.
    Issuer,
    /// A parameter occurs twice, or is missing.
    Malformed,
    /// The authorization server reports an error. Both texts are untrusted.
    Refused {
        /// The error code, such as `access_denied`.
        code: String,
        /// The description.
        description: Option<String>,
    },
}

impl ExpectedRedirect<'_> {
    /// Checks the parameters of a response, and returns the code.
    ///
    /// # Errors
    /// Fails if this is not a response to the login, or if it contains no code.
    pub fn check<N, V>(&self, parameters: impl IntoIterator<Item = (N, V)>) -> Result<String, RedirectError>
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let parameters: Vec<(N, V)> = parameters.into_iter().collect();
        let read = |wanted: &str| {
            let mut found = parameters.iter().filter(|(name, _)| name.as_ref() == wanted);
            match (found.next(), found.next()) {
                (Some(_), Some(_)) => Err(RedirectError::Malformed),
                (one, _) => Ok(one.map(|(_, value)| value.as_ref())),
            }
        };
        if !read("state")?.is_some_and(|state| is_equal(state, self.state)) {
            return Err(RedirectError::State);
        }
        // Before the error is looked at: one of another issuer must not be shown.
        match read("iss")? {
            Some(issuer) if issuer != self.issuer => return Err(RedirectError::Issuer),
            None if self.names_issuer => return Err(RedirectError::Issuer),
            _ => {}
        }
        if let Some(code) = read("error")? {
            let description = read("error_description")?.map(str::to_owned);
            return Err(RedirectError::Refused { code: code.to_owned(), description });
        }
        match read("code")? {
            Some(code) if !code.is_empty() => Ok(code.to_owned()),
            _ => Err(RedirectError::Malformed),
        }
    }
}

/// Compares two texts in a time that does not depend on where they differ.
fn is_equal(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |found, (one, other)| found | (one ^ other));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://as.example";

    fn check(names_issuer: bool, parameters: &[(&str, &str)]) -> Result<String, RedirectError> {
        ExpectedRedirect { state: "s1", issuer: ISSUER, names_issuer }.check(parameters.iter().copied())
    }

    #[test]
    fn state_is_checked_first() {
        for state in ["", "s", "s2", "s11", "S1"] {
            let parameters =
                [("code", "c"), ("state", state), ("iss", "https://evil.example"), ("error", "x")];
            assert_eq!(check(true, &parameters), Err(RedirectError::State), "{state}");
        }
        assert_eq!(check(false, &[("code", "c")]), Err(RedirectError::State));
        assert_eq!(
            check(false, &[("state", "s1"), ("state", "s1"), ("code", "c")]),
            Err(RedirectError::Malformed)
        );
    }

    #[test]
    fn issuer_is_compared_exactly_also_for_errors() {
        let with = |names_issuer, issuer: Option<&'static str>, rest: &'static str| {
            let mut parameters = vec![("state", "s1"), (rest, "c")];
            parameters.extend(issuer.map(|issuer| ("iss", issuer)));
            check(names_issuer, &parameters)
        };
        assert_eq!(with(true, Some(ISSUER), "code"), Ok("c".to_owned()));
        assert_eq!(with(false, Some(ISSUER), "code"), Ok("c".to_owned()));
        assert_eq!(with(false, None, "code"), Ok("c".to_owned()));
        for rest in ["code", "error"] {
            assert_eq!(with(true, None, rest), Err(RedirectError::Issuer));
            for issuer in ["https://as.example/", "https://AS.example", "https://evil.example", ""] {
                assert_eq!(with(true, Some(issuer), rest), Err(RedirectError::Issuer), "{issuer}");
                assert_eq!(with(false, Some(issuer), rest), Err(RedirectError::Issuer), "{issuer}");
            }
        }
    }

    #[test]
    fn error_or_code_is_returned() {
        let refused = |description: Option<&str>| {
            Err(RedirectError::Refused {
                code: "access_denied".to_owned(),
                description: description.map(str::to_owned),
            })
        };
        assert_eq!(
            check(false, &[("state", "s1"), ("error", "access_denied"), ("code", "c")]),
            refused(None)
        );
        let described = [("state", "s1"), ("error", "access_denied"), ("error_description", "<b>no</b>")];
        assert_eq!(check(false, &described), refused(Some("<b>no</b>")));
        assert_eq!(check(false, &[("state", "s1")]), Err(RedirectError::Malformed));
        assert_eq!(check(false, &[("state", "s1"), ("code", "")]), Err(RedirectError::Malformed));
        assert_eq!(
            check(false, &[("state", "s1"), ("code", "a"), ("code", "b")]),
            Err(RedirectError::Malformed)
        );
    }
}
